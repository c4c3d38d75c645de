def picture_seeds(channel):
    # Sends the figures of a script to the server through the descriptor `channel`: figures that `plt.show` shows,
    # figures that `savefig` saves under a plain file name, and figures that are open at the end. Returns a dictionary
    # with a function for each module of matplotlib, to call after its import. Also returns a function to call when the
    # script begins.
    #
    # This code runs in the script's process, so the server does not trust the data that it receives.
    import os, sys

    PICTURES_MAX, BYTES_MAX, PICTURES_BYTES_MAX, SIDE_MAX = 4, 512 * 1024, 720 * 1024, 4096
    LABEL_BYTES_MAX = 24
    # A picture that is too large is drawn again. This factor makes it smaller than necessary.
    MARGIN = 0.9
    SIGNATURE = b"\x89PNG\r\n\x1a\n"
    # The options of savefig() that apply when a figure is drawn again.
    LOOKS = ("bbox_extra_artists", "bbox_inches", "dpi", "edgecolor", "facecolor", "pad_inches",
             "transparent")
    # The option that draws exactly the figure. The value None would mean the setting "savefig.bbox".
    WINDOW = {"bbox_inches": False}

    # The PID of the script.
    own_number = None
    # `count` is the number of pictures that were sent or were too large. `omitted` is the number of pictures above the
    # maximum.
    count = omitted = 0
    # The total size of the pictures that were sent, in bytes.
    sent = 0
    # Maps each file name to the saved figure, the figure's content, and the picture. The size of the picture replaces a
    # picture that is too large.
    saved = {}
    # The original Figure.savefig of matplotlib.
    save = None

    def send(kind, content):
        rest = memoryview(kind + len(content).to_bytes(4, "little") + content)
        while rest:
            rest = rest[os.write(channel, rest):]

    def send_picture(label, picture):
        nonlocal count, sent
        count += 1
        if isinstance(picture, bytes):
            sent += len(picture)
            send(b"P", picture)
        else:
            label = label.encode("utf-8", "replace")[:LABEL_BYTES_MAX]
            send(b"L", picture.to_bytes(8, "little") + label)

    def report(label, error):
        # Prints a warning, because an error in a figure must not make the run fail.
        try:
            print("%s could not be drawn: %r" % (label, error), file=sys.stderr)
        except BaseException:
            pass

    def side(png):
        # Returns the longer side of a PNG in pixels, from its header.
        return max(int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big"))

    def bounds():
        # Returns the maximum size of the next picture, for the first and for the second attempt. The first limit
        # leaves a sixteenth for the server, which encodes the picture again, and a third for later pictures.
        kept = sum(len(picture) for _, _, picture in saved.values() if isinstance(picture, bytes))
        left = max(0, PICTURES_BYTES_MAX - sent - kept)
        return min(BYTES_MAX * 15 // 16, left * 2 // 3), min(BYTES_MAX, left)

    def fits(png, most):
        return png.startswith(SIGNATURE) and len(png) <= most and side(png) <= SIDE_MAX

    def bounded(figure, dpi, options):
        # Returns the resolution. Lowers it if the picture would be too large.
        dpi = min(dpi, SIDE_MAX / max(figure.get_size_inches()))
        settings = sys.modules["matplotlib"].rcParams
        box = options.get("bbox_inches")
        box = settings["savefig.bbox"] if box is None else box
        if not box:
            return dpi
        # The box can be smaller or larger than the figure, because artists may be far outside of the figure.
        pad = options.get("pad_inches")
        pad = settings["savefig.pad_inches"] if pad is None else pad
        if box == "tight":
            own = figure.dpi
            figure.dpi = min(own, dpi)
            try:
                box = figure.get_tightbbox(bbox_extra_artists=options.get("bbox_extra_artists"))
            finally:
                figure.dpi = own
        side = max(box.width, box.height)
        return min(dpi, SIDE_MAX / (side if isinstance(pad, str) else side + 2 * pad))

    def draw(figure, options):
        # Returns the picture. If the second, smaller attempt is still too large, returns the size of the picture.
        import io

        # Choose the resolution like savefig().
        dpi = options.get("dpi") or sys.modules["matplotlib"].rcParams["savefig.dpi"]
        dpi = bounded(figure, figure.dpi if dpi == "figure" else dpi, options)
        first, last = bounds()
        for most in (first, last):
            buffer = io.BytesIO()
            save(figure, buffer, **dict(options, format="png", dpi=dpi))
            picture = buffer.getvalue()
            if fits(picture, most):
                return picture
            least = min((first / len(picture)) ** 0.5, SIDE_MAX / side(picture))
            dpi *= max(min(1, least) * MARGIN, 0.01)
        return len(picture)

    def content_of(figure):
        parts = figure.get_children()
        return parts + [part for axes in figure.axes for part in axes.get_children()]

    def is_saved(figure):
        # Compare the current content, because the script may have drawn more since it saved the figure.
        now = content_of(figure)
        for other, before, _ in saved.values():
            if other is figure and len(before) == len(now):
                if all(a is b for a, b in zip(before, now)):
                    return True
        return False

    def note_saved(figure, name, options):
        nonlocal omitted
        is_plain = isinstance(name, str) and os.path.basename(name) == name
        if not is_plain or not name.lower().endswith((".png", ".svg")):
            return
        # If several figures are saved under one name, only the last figure counts.
        saved.pop(name, None)
        if count + len(saved) >= PICTURES_MAX:
            omitted += 1
            return
        with open(name, "rb") as file:
            picture = file.read(BYTES_MAX + 1)
        if not fits(picture, bounds()[0]):
            # Draw a PNG if the file is too large or is an SVG. Few clients show SVG files, and models cannot read
            # them.
            looks = {key: options[key] for key in LOOKS if key in options}
            picture = draw(figure, looks)
        saved[name] = figure, content_of(figure), picture

    def send_open():
        nonlocal omitted
        managers = sys.modules["matplotlib._pylab_helpers"].Gcf.figs
        for number in sorted(managers):
            label = "Figure %s" % number
            try:
                figure = managers[number].canvas.figure
                is_blank = not figure.axes and len(figure.get_children()) < 2
                if is_blank or is_saved(figure):
                    continue
                if count >= PICTURES_MAX:
                    omitted += 1
                    continue
                figure.dpi = bounded(figure, figure.dpi, WINDOW)
                if figure.canvas.callbacks.callbacks.get("draw_event"):
                    # An animation draws its first picture when the figure is drawn on a screen.
                    figure.canvas.draw()
                send_picture(label, draw(figure, dict(WINDOW, dpi=figure.dpi)))
            except BaseException as error:
                report(label, error)

    def send_all():
        # A child process of the script has the descriptor too, but must not send the figures.
        if os.getpid() != own_number:
            return
        try:
            for name, (_, _, picture) in saved.items():
                send_picture(name, picture)
            # Clear `saved` only after `send_open`, which uses it to skip saved figures.
            if "matplotlib.pyplot" in sys.modules:
                send_open()
        finally:
            saved.clear()

    def finish():
        try:
            send_all()
            if omitted and os.getpid() == own_number:
                send(b"O", omitted.to_bytes(4, "little"))
        except BaseException as error:
            report("The remaining figures", error)

    def seed_figure(module):
        nonlocal save
        import atexit, functools

        save = module.Figure.savefig

        @functools.wraps(save)
        def savefig(self, fname, *arguments, **options):
            result = save(self, fname, *arguments, **options)
            try:
                if isinstance(fname, (str, os.PathLike)):
                    note_saved(self, os.fspath(fname), options)
            except Exception as error:
                report("The saved figure", error)
            return result

        module.Figure.savefig = savefig
        # Handlers run in reverse order, so this runs before matplotlib's handler, which closes all figures.
        atexit.register(finish)

    def seed_pyplot(module):
        def show(*arguments, **options):
            # A call that does not block, for example by plt.pause(), leaves the figures open.
            block = options.get("block", arguments[0] if arguments else None)
            if block if block is not None else not module.isinteractive():
                try:
                    send_all()
                except Exception as error:
                    report("The shown figures", error)
                module.close("all")

        module.show = show

    def begin():
        nonlocal own_number
        own_number = os.getpid()

    return {"matplotlib.figure": seed_figure, "matplotlib.pyplot": seed_pyplot}, begin
