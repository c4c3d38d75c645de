# Prints, as JSON, the interpreter's version and the files that Python reads to run a script. The arguments are sources
# to compile for this interpreter.
#
# This script runs outside of the sandbox with -I and -S, so only the standard library runs. Lines of .pth files,
# sitecustomize, and code from PYTHONPATH or site-packages run only later, inside the sandbox.
import json
import marshal
import os
import site
import sys
import sysconfig

# Modules with shared libraries. This script imports them and lists the loaded libraries.
WITH_LIBRARIES = (
    "_bz2", "_crypt", "_ctypes", "_curses", "_curses_panel", "_dbm", "_decimal", "_elementtree",
    "_gdbm", "_hashlib", "_lzma", "_sqlite3", "_ssl", "_uuid", "_zstd", "nis", "pyexpat", "zlib",
)


def package_folders():
    # Returns the folders of installed packages, in the order of site.main(). The functions of `site` find the folders,
    # also in a virtual environment, and call site.addsitedir() for each folder. This function replaces
    # site.addsitedir(), because the original would run .pth files.
    found = []

    def addsitedir(folder, known_paths=None):
        found.append(folder)
        return known_paths

    site.addsitedir = addsitedir
    # Like Python without -I, use the user's packages only if the real and the effective user are the same.
    is_own = os.geteuid() == os.getuid() and os.getegid() == os.getgid()
    site.ENABLE_USER_SITE = is_own
    site.venv(set())
    if site.ENABLE_USER_SITE:
        site.addusersitepackages(set())
    site.addsitepackages(set())
    return found


def named_in_pth_files(folder):
    # Yields the paths in .pth files. Other lines are code, and run only inside the sandbox.
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))
    except OSError:
        return
    for name in names:
        try:
            # utf-8-sig, because a byte order mark at the start is not part of the first path.
            with open(os.path.join(folder, name), encoding="utf-8-sig",
                      errors="surrogateescape") as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        for line in lines:
            line = line.rstrip()
            if not line or line.startswith(("#", "import ", "import\t")) or "\0" in line:
                continue
            path = os.path.abspath(os.path.join(folder, line))
            if os.path.exists(path):
                yield path


def loaded_files():
    # Returns the mapped files, and the paths by which the loader found them. Symlinks among these paths must exist in
    # the sandbox too. Empty if neither /proc nor the list of macOS is available.
    for name in WITH_LIBRARIES:
        try:
            __import__(name)
        except Exception:
            pass
    if sys.platform == "darwin":
        return loaded_images()
    try:
        with open("/proc/self/maps", errors="surrogateescape") as maps:
            files = {line.rstrip("\n").split(None, 5)[5] for line in maps if "/" in line}
    except OSError:
        return set()
    try:
        names = set(names_of_libraries())
    except Exception:
        names = {link for path in files for link in links_beside(path)}
    own = os.path.realpath(sys.executable)
    return {path for path in files | names if path != own and os.path.isfile(path)}


def loaded_images():
    # Returns the libraries in the list of the macOS loader (mach-o/dyld.h). Libraries of the system have no
    # file.
    try:
        import ctypes

        library = ctypes.CDLL(None)
        library._dyld_get_image_name.restype = ctypes.c_char_p
        names = [library._dyld_get_image_name(i) for i in range(library._dyld_image_count())]
    except Exception:
        return set()
    own = os.path.realpath(sys.executable)
    paths = {os.fsdecode(name) for name in names if name}
    return {path for path in paths if path != own and os.path.isfile(path)}


def running_file():
    # Returns the path of the program that this process runs on macOS, and None on other systems. The path differs from
    # sys.executable if Python comes from a framework, because such a Python executes another program (libproc.h:
    # proc_pidpath).
    if sys.platform != "darwin":
        return None
    try:
        import ctypes

        buffer = ctypes.create_string_buffer(4096)
        length = ctypes.CDLL(None).proc_pidpath(os.getpid(), buffer, 4096)
    except Exception:
        return None
    return os.fsdecode(buffer.value) if length > 0 else None


def names_of_libraries():
    # Yields the name of each library in the loader's list (link.h: struct link_map).
    import ctypes

    class LinkMap(ctypes.Structure):
        pass

    LinkMap._fields_ = [
        ("address", ctypes.c_void_p), ("name", ctypes.c_char_p), ("dynamic", ctypes.c_void_p),
        ("next", ctypes.POINTER(LinkMap)),
    ]
    entry = ctypes.cast(ctypes.CDLL(None)._handle, ctypes.POINTER(LinkMap))
    while entry:
        if entry.contents.name:
            yield os.fsdecode(entry.contents.name)
        entry = entry.contents.next


def links_beside(path):
    folder = os.path.dirname(path)
    try:
        links = [entry.path for entry in os.scandir(folder) if entry.is_symlink()]
    except OSError:
        return []
    return [link for link in links if os.path.realpath(link) == path]


def answer():
    packages = package_folders()
    named = [path for folder in packages for path in named_in_pth_files(folder)]
    loaded = loaded_files()
    loaders = [
        path for path in loaded if os.path.basename(path).startswith(("ld-", "ld.", "ld64."))
    ]
    kinds = sysconfig.get_paths()
    paths = {path for kind, path in kinds.items() if kind not in ("scripts", "data")}
    paths |= set(sys.path) | set(packages) | loaded
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        paths |= {
            os.path.join(prefix, name) for name in ("lib", "lib64", "pyvenv.cfg", "share/zoneinfo")
        }
    has_user_site = bool(site.ENABLE_USER_SITE) and site.getusersitepackages() in packages
    sources = sys.argv[1:] if sys.version_info >= (3, 8) else []
    return {
        "executable": sys.executable,
        "file": running_file(),
        "version_info": sys.version_info[:2],
        "implementation": sys.implementation.name,
        "version": sys.version.split()[0],
        "codes": [
            marshal.dumps(compile(source, "<bootstrap>", "exec")).hex() for source in sources
        ],
        "loader": min(loaders, default=None),
        # The code that runs outside of the sandbox.
        "own": sorted(loaded | {sys.executable, kinds["stdlib"], kinds["platstdlib"]}),
        "paths": sorted(path for path in paths if os.path.isabs(path) and path != "/"),
        "named_in_pth_files": named,
        "packages": packages,
        "user_base": site.getuserbase() if has_user_site else None,
    }


print(json.dumps(answer()))
