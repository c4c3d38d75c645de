//! Tests the pictures in a reply. The reply contains the figures of a script, and no other files.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::harness::{CallResult, McpProcess, SYNC_TIMEOUT, ServerBuilder, eventually, python};
use crate::sandbox::of_user;

tests! {
    needs [Tier3, Packages]:
        scripts_that_draw_have_an_interpreter_of_their_own,
        hostile_figures_fail_no_run_warm,
        figures_come_back_the_same_warm_and_cold,
        drawing_has_the_limits_of_the_script_warm,
        a_script_that_sends_pictures_itself_sends_pictures_only_warm;
    needs [Tier2, Tier3, PublicPython, Packages]:
        figures_come_back_at_every_tier,
        a_script_that_sends_pictures_itself_sends_pictures_only_at_tier_2;
    needs [Sandbox, Packages]:
        a_job_keeps_its_pictures,
        the_admin_can_do_without_pictures,
        drawing_has_the_limits_of_the_script_cold,
        a_script_that_sends_pictures_itself_sends_pictures_only_cold,
        hostile_figures_fail_no_run_cold;
}

const DONE: &str = "Execution completed successfully.";
const MODULES: &str = "numpy,matplotlib.pyplot";

/// The file descriptor for pictures in a script's process. In a fork of a warm interpreter, it has another number.
const COLD_FD: u32 = 20;
const WARM_FD: u32 = 4;

/// A script with a Matplotlib artist. The first drawing of the artist compresses well, but later drawings do not.
const GROWING: &str = "
import numpy as np
import matplotlib.pyplot as plt
from matplotlib.artist import Artist
class Growing(Artist):
    drawn = 0
    def draw(self, renderer):
        Growing.drawn += 1
        width, height = int(renderer.width), int(renderer.height)
        pixels = np.full((height, width, 4), 255, np.uint8)
        rows = height if Growing.drawn > 1 else height * 7 // 10
        pixels[:rows, :, :3] = np.random.default_rng(1).integers(0, 256, (rows, width, 3))
        renderer.draw_image(renderer.new_gc(), 0, 0, pixels)
plt.figure().add_artist(Growing())
";

/// A script, the number of its pictures, and the end of its text.
type Case = (&'static str, usize, &'static str);

/// These scripts run after `plt` has been imported.
const CASES: &[Case] = &[
    ("plt.plot([1, 2]); plt.show()", 1, DONE),
    ("plt.plot([1, 2])", 1, DONE),
    ("plt.plot([1, 2]); plt.savefig('plot.png')", 1, DONE),
    ("plt.plot([1, 2]); plt.savefig('plot.svg')", 1, DONE),
    ("fig, ax = plt.subplots(); ax.plot([1, 2]); fig.savefig('plot.png'); plt.close(fig)", 1, DONE),
    // A figure that is saved and then shown becomes one picture. If the script draws in between, there are two
    // pictures.
    ("plt.plot([1, 2]); plt.savefig('plot.png'); plt.show()", 1, DONE),
    ("plt.plot([1, 2]); plt.savefig('plot.png'); plt.plot([2, 1]); plt.show()", 2, DONE),
    ("plt.plot([1, 2]); plt.savefig('plot.png'); plt.clf(); plt.plot([2, 1])", 2, DONE),
    ("for i in range(3): plt.plot([1, i]); plt.savefig('plot.png')", 1, DONE),
    // Showing a figure closes it, as closing a window does.
    (
        "plt.plot([1, 2]); plt.show(); plt.plot([2, 1]); plt.show(); print(plt.get_fignums())",
        2,
        DONE,
    ),
    ("plt.figure(); plt.plot([1, 2]); plt.figure(); plt.plot([2, 1]); plt.show()", 2, DONE),
    ("show = plt.show\nplt.plot([1, 2]); show()", 1, DONE),
    ("from pylab import *\nplot([1, 2]); show()", 1, DONE),
    ("import matplotlib\nmatplotlib.use('Agg')\nplt.plot([1, 2]); plt.show()", 1, DONE),
    ("for i in range(3): plt.plot([1, i]); plt.pause(0.001)", 1, DONE),
    ("import io\nplt.plot([1, 2]); plt.savefig(io.BytesIO()); plt.close()", 0, DONE),
    ("plt.figure()", 0, DONE),
    // At its declared size, this figure would take gigabytes.
    (
        "plt.rcParams['savefig.bbox'] = 'tight'\nplt.plot([1, 2]); plt.xlim(0, 1)\n\
         plt.text(30, 60, 'far away'); plt.show()",
        1,
        DONE,
    ),
    (
        "plt.plot([1, 2]); plt.savefig('plot.svg', bbox_inches='tight', pad_inches='layout')",
        1,
        DONE,
    ),
    ("plt.plot([1, 2])\nassert 1 == 2, 'refuted'", 1, "Execution failed with return code 1"),
    ("import sys\nplt.plot([1, 2])\nsys.exit(3)", 1, "Execution failed with return code 3"),
    (
        "for i in range(6): plt.figure(); plt.plot([i])",
        4,
        "2 more pictures were left out: a run has 4 at most.",
    ),
    (
        "import matplotlib.animation as a\nfig, ax = plt.subplots()\nline, = ax.plot([0, 1])\n\
         endless = a.FuncAnimation(fig, lambda i: line.set_data([0, 1], [i, 1]), iter(int, 1), \
         cache_frame_data=False)\nplt.show()",
        1,
        DONE,
    ),
    (
        "class Broken(plt.Line2D):\n    def draw(self, renderer): raise ValueError('no drawing')\n\
         fig, ax = plt.subplots(); ax.add_line(Broken([0, 1], [0, 1]))\nplt.figure(); \
         plt.plot([1])",
        1,
        "STDERR:\nFigure 1 could not be drawn: ValueError('no drawing')\n\n\
         Execution completed successfully.",
    ),
    (GROWING, 0, " KiB, and a picture may have 512 KiB."),
    (DENSE, 4, DONE),
];

/// Scripts with large figures. At their declared size, most would take gigabytes.
const LARGE: &[Case] = &[
    ("plt.figure(figsize=(50, 40)); plt.plot([1, 2])", 1, DONE),
    (
        "plt.plot([1, 2]); plt.xlim(0, 1); plt.text(30, 60, 'far away')\n\
         plt.savefig('plot.svg', bbox_inches='tight')",
        1,
        DONE,
    ),
    (
        "from matplotlib.transforms import Bbox\nplt.figure(figsize=(300, 9)); plt.plot([1, 2])\n\
         plt.savefig('a.svg', bbox_inches='tight', pad_inches=99)\n\
         plt.savefig('b.svg', bbox_inches=Bbox([[0, 0], [400, 400]]))\nplt.savefig('c.svg', \
         dpi=9000)",
        3,
        DONE,
    ),
    (
        "import matplotlib.animation as a\nfig, ax = plt.subplots(figsize=(300, 300))\n\
         line, = ax.plot([0, 1])\n\
         large = a.FuncAnimation(fig, lambda i: line.set_data([0, 1], [i, 1]), 2)",
        1,
        DONE,
    ),
];

fn source(script: &str) -> String {
    format!("import matplotlib.pyplot as plt\n{script}")
}

fn connect(builder: ServerBuilder, is_warm: bool) -> McpProcess {
    if !is_warm {
        return builder.connect();
    }
    let mut server = builder.warm(MODULES).connect();
    server.wait_until_warm();
    server
}

/// Runs the cases. Returns the digests of their pictures.
fn run_cases(server: &mut McpProcess, cases: &[Case]) -> Vec<Vec<String>> {
    let run = |(script, count, end): &Case| {
        let result = server.execute(&source(script));
        assert_eq!(result.pictures.len(), *count, "{script}\n{:?}", result.texts);
        assert!(result.texts.last().unwrap().ends_with(end), "{script}\n{:?}", result.texts);
        assert!(!result.is_error, "{script}");
        checked(&result)
    };
    cases.iter().map(run).collect()
}

/// A script with four dense pictures. The later pictures are drawn smaller, so that all four together stay within the
/// size limit of a run.
const DENSE: &str = "import numpy as np\nfor i in range(4):\n    plt.figure(figsize=(12, 12))\n    \
                     plt.imshow(np.random.default_rng(i).random((900, 900)), \
                     interpolation='nearest')";

/// Checks that the pictures can be decoded and match `_meta`. Returns their digests.
fn checked(result: &CallResult) -> Vec<String> {
    let told = result.execution().get("pictures").cloned().unwrap_or_else(|| json!([]));
    let found = result.pictures.iter().enumerate().map(|(index, png)| {
        assert!(png.len() <= 512 * 1024, "{} bytes", png.len());
        let [width, height] = decoded_size(png);
        assert!(width.max(height) <= 4096, "{width} × {height}");
        json!({
            "index": index, "bytes": png.len(), "width": width, "height": height,
            "sha256": hex::encode(Sha256::digest(png)),
        })
    });
    let found: Vec<Value> = found.collect();
    assert_eq!(told, Value::from(found.clone()));
    let bytes: usize = result.pictures.iter().map(Vec::len).sum();
    assert!(bytes <= 720 * 1024, "{bytes} bytes");
    found.iter().map(|picture| picture["sha256"].as_str().unwrap().to_owned()).collect()
}

/// Decodes pictures with another library, and prints their widths and heights. The length of each picture precedes it.
const DECODE: &str = "import io, sys, json\nfrom PIL import Image\nread = sys.stdin.buffer.read\n\
    while length := read(4):\n    \
    picture = Image.open(io.BytesIO(read(int.from_bytes(length, 'big'))), formats=['PNG'])\n    \
    picture.load(); print(json.dumps(picture.size), flush=True)";

/// Returns the width and the height of a picture. One decoder serves all tests, and ends with them.
fn decoded_size(png: &[u8]) -> [u32; 2] {
    static DECODER: LazyLock<Mutex<(Child, BufReader<ChildStdout>)>> = LazyLock::new(|| {
        let mut command = Command::new(python());
        command.args(["-c", DECODE]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut decoder = command.spawn().unwrap();
        let stdout = BufReader::new(decoder.stdout.take().unwrap());
        Mutex::new((decoder, stdout))
    });
    // A panic with the lock means that the decoder has ended.
    let mut decoder = DECODER.lock().unwrap();
    let (decoder, stdout) = &mut *decoder;
    let stdin = decoder.stdin.as_mut().unwrap();
    stdin.write_all(&u32::try_from(png.len()).unwrap().to_be_bytes()).unwrap();
    stdin.write_all(png).unwrap();
    stdin.flush().unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn figures_come_back_the_same_warm_and_cold() {
    let [cold, warm] = [false, true].map(|is_warm| {
        let mut server = connect(ServerBuilder::new(), is_warm);
        let digests = run_cases(&mut server, CASES);
        if is_warm {
            // Each of these takes up to 17 s, and new interpreters draw in the same way.
            run_cases(&mut server, LARGE);
        }
        server.finish();
        digests
    });
    for ((script, ..), (cold, warm)) in CASES.iter().zip(cold.iter().zip(&warm)) {
        assert_eq!(cold, warm, "{script}");
    }
}

/// Below tier 3, another launcher passes the file descriptor for pictures.
fn figures_come_back_at_every_tier() {
    let script = "plt.plot([1, 2]); plt.savefig('a.svg'); plt.plot([2, 1]); plt.show(); print('a')";
    let tiers = [
        ("T3", &[("QWED_MCP_SANDBOX", "strict")][..]),
        ("T2", AT_TIER_2),
        (
            "T1",
            &[
                ("QWED_MCP_TEST_KERNEL_LACKS", "namespaces,landlock"),
                ("QWED_MCP_SANDBOX", "degraded"),
            ],
        ),
        ("off", &[("QWED_MCP_SANDBOX", "off")]),
    ];
    let found = tiers.map(|(tier, variables)| {
        let mut server = at_tier(variables).connect();
        let result = server.execute(&source(script));
        assert_eq!(result.execution()["sandbox"], tier, "{:?}", result.texts);
        assert_eq!(result.texts[0], format!("STDOUT:\na\n\n{DONE}"), "{tier}");
        let digests = checked(&result);
        assert_eq!(digests.len(), 2, "{tier}");
        server.finish();
        digests
    });
    assert!(found.iter().all(|digests| *digests == found[0]), "{found:?}");
}

const AT_TIER_2: &[(&str, &str)] = &[("QWED_MCP_TEST_KERNEL_LACKS", "namespaces")];

/// Returns a server with these variables. Its scripts may run as another user.
fn at_tier(variables: &[(&str, &str)]) -> ServerBuilder {
    let builder = of_user(ServerBuilder::new(), None);
    variables.iter().fold(builder, |builder, (name, value)| builder.variable(name, value))
}

fn a_job_keeps_its_pictures() {
    let mut server = connect(ServerBuilder::new(), false);
    let job = server.place(&source("plt.plot([1, 2]); plt.show(); print('a')"));
    let many = server.place(&source("for i in range(6): plt.figure(); plt.plot([i])"));
    let result = server.wait_for_job(&job);
    assert_eq!(result.text(), format!("Status: success\n\nResult:\nSTDOUT:\na\n\n{DONE}"));
    let digests = checked(&result);
    assert_eq!(digests.len(), 1);
    // A second request for the job returns the pictures too.
    assert_eq!(checked(&server.status(&job)), digests);
    let result = server.wait_for_job(&many);
    assert_eq!(checked(&result).len(), 4);
    assert_eq!(result.texts[1], "2 more pictures were left out: a run has 4 at most.");
    server.finish();
}

fn the_admin_can_do_without_pictures() {
    let builder = ServerBuilder::new().variable("QWED_MCP_PICTURES", "off");
    let mut server = connect(builder, false);
    let result = server.execute(&source("plt.plot([1, 2]); plt.savefig('plot.png'); plt.show()"));
    assert_eq!((result.text(), result.pictures.len()), (DONE, 0));
    assert_eq!(result.execution().get("pictures"), None);
    server.finish();
}

fn drawing_has_the_limits_of_the_script_cold() {
    drawing_has_the_limits_of_the_script(false);
}

fn drawing_has_the_limits_of_the_script_warm() {
    drawing_has_the_limits_of_the_script(true);
}

fn drawing_has_the_limits_of_the_script(is_warm: bool) {
    let builder = ServerBuilder::new().variable(SYNC_TIMEOUT, "20000");
    let mut server = connect(builder.variable("QWED_MCP_MEMORY_MB", "400"), is_warm);
    let artist = |draw: &str| {
        source(&format!(
            "plt.plot([1, 2]); plt.show()\nclass Hostile(plt.Line2D):\n    def draw(self, \
             renderer):\n        \
             {draw}\nfig, ax = plt.subplots(); ax.add_line(Hostile([0, 1], [0, 1]))\nplt.show()"
        ))
    };
    let looping = server.execute(&artist("while True: pass"));
    assert_eq!(looping.texts[0], "Execution timed out after 20.0 seconds.");
    // The script sent the picture when it showed the figure, before the timeout.
    assert_eq!((looping.is_error, checked(&looping).len()), (true, 1));
    let large = server.execute(&artist(
        "import time; b = [bytearray(1 << 24) for _ in range(60)]; time.sleep(2)",
    ));
    let text = &large.texts[0];
    assert!(text.contains("The memory limit of the sandbox ended it."), "{text}");
    assert!(large.is_error, "{text}");
    assert_eq!(checked(&server.execute(&source("plt.plot([1])"))).len(), 1);
    server.finish();
}

fn a_script_that_sends_pictures_itself_sends_pictures_only_cold() {
    a_script_that_sends_pictures_itself_sends_pictures_only(ServerBuilder::new(), false);
}

fn a_script_that_sends_pictures_itself_sends_pictures_only_warm() {
    a_script_that_sends_pictures_itself_sends_pictures_only(ServerBuilder::new(), true);
}

fn a_script_that_sends_pictures_itself_sends_pictures_only_at_tier_2() {
    a_script_that_sends_pictures_itself_sends_pictures_only(at_tier(AT_TIER_2), false);
}

/// Returns Python functions that write to the file descriptor for pictures.
fn sending_tools(fd: u32) -> String {
    format!(
        "
import os, struct, zlib
def chunk(kind, content):
    return struct.pack('>I', len(content)) + kind + content + struct.pack('>I', zlib.crc32(kind + content))
def png(width=2, height=2, more=b'', pixels=None):
    pixels = pixels if pixels is not None else zlib.compress(b''.join(b'\\0' + b'\\xff' * 3 * min(width, 9) for _ in range(min(height, 9))))
    return (b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0))
            + more + chunk(b'IDAT', pixels) + chunk(b'IEND', b''))
def send(kind, content, length=None):
    os.write({fd}, kind + struct.pack('<I', len(content) if length is None else length) + content)
"
    )
}

/// The server returns data from this file descriptor only if it is a picture.
fn a_script_that_sends_pictures_itself_sends_pictures_only(builder: ServerBuilder, is_warm: bool) {
    let builder = builder.unchecked();
    let mut server = connect(builder.clone(), is_warm);
    let fd = if is_warm { WARM_FD } else { COLD_FD };
    let tools = sending_tools(fd);
    let unusable = "A picture was left out: it is not a PNG of at most 4096 × 4096 pixels.";
    for (script, count, left_out) in [
        ("send(b'P', png())", 1, ""),
        ("for _ in range(100): send(b'P', png())", 4, "more pictures were left out"),
        ("send(b'P', png(more=chunk(b'tEXt', b'x' * 60000)))", 1, ""),
        ("send(b'P', b'<svg onload=alert(1)>')", 0, unusable),
        ("send(b'P', png(width=60000, height=60000))", 0, unusable),
        ("send(b'P', png()[:-20])", 0, unusable),
        ("send(b'P', png() + b'<svg onload=alert(1)>')", 1, ""),
        ("send(b'P', png(more=chunk(b'PLTE', b'<svg onload=alert(1)>')))", 1, ""),
        // The data has more pixels than the header declares. Decompressed, it would take 400 MiB.
        (
            "c = zlib.compressobj()\n\
             part = lambda: c.compress(bytes(1 << 20)) + c.flush(zlib.Z_FULL_FLUSH)\n\
             pixels = part() + part() * 399 + c.flush()\nsend(b'P', png(pixels=pixels))",
            1,
            "",
        ),
        ("send(b'P', png(pixels=b'no zlib at all'))", 0, unusable),
        ("send(b'P', png(pixels=b''))", 0, unusable),
        ("send(b'P', b''); send(b'P', png())", 1, unusable),
        ("send(b'X', png()); send(b'P', png())", 0, ""),
        ("send(b'P', png(), length=1 << 31)", 0, ""),
        ("os.write({fd}, b'P'); os.close({fd})", 0, ""),
        (
            "send(b'P', png())\nos.close({fd})\nimport matplotlib.pyplot as plt\nplt.plot([1])",
            1,
            "",
        ),
        ("send(b'L', bytes(8) + b'\\x1b[2J' * 100)", 0, "A picture was left out: it has 0 KiB"),
        ("send(b'O', b'\\xff' * 4)", 0, "99999 more pictures were left out"),
        ("send(b'L', b'\\xff' * 8 + b'a.png')", 0, unusable),
        ("send(b'O', b'\\xff' * 5); send(b'L', b'')", 0, ""),
        // A child process continues to send after the script has ended.
        (
            "send(b'P', png())\nif os.fork() == 0:\n    while True: send(b'P', png())\nos._exit(0)",
            1,
            "",
        ),
    ] {
        let script = format!("{tools}{}", script.replace("{fd}", &fd.to_string()));
        let result = server.execute(&script);
        let texts = result.texts.join("\n");
        // The number of pictures from the child process is not predictable.
        let is_exact = result.pictures.len() == count || script.contains("fork");
        assert!(is_exact && texts.contains(left_out), "{script}\n{texts}");
        assert!(result.pictures.len() <= 4 && !texts.contains('\u{1b}'), "{script}\n{texts}");
        for (png, told) in result.pictures.iter().zip(0..) {
            let told = &result.execution()["pictures"][told];
            assert_eq!(told["sha256"], hex::encode(Sha256::digest(png)), "{script}");
            assert_eq!((&told["width"], png.len() < 200), (&json!(2), true), "{script}");
            assert_eq!(decoded_size(png), [2, 2], "{script}");
            assert!(!png.windows(4).any(|bytes| bytes == b"<svg"), "{script}");
        }
        let next = server.execute("print(2)");
        assert_eq!((next.text(), next.pictures.len()), (&*format!("STDOUT:\n2\n\n{DONE}"), 0));
    }
    server.finish();
    // The server stops reading when it has received more bytes than the pictures of a run may have in total.
    let mut server = connect(builder.variable(SYNC_TIMEOUT, "10000"), is_warm);
    let flood = format!("{tools}os.set_blocking(1, True)\nwhile True: send(b'P', bytes(60000))");
    let result = server.execute(&flood);
    assert_eq!(result.texts[0], "Execution timed out after 10.0 seconds.");
    assert_eq!(result.pictures.len(), 0);
    server.finish();
}

fn hostile_figures_fail_no_run_cold() {
    hostile_figures_fail_no_run(false);
}

fn hostile_figures_fail_no_run_warm() {
    hostile_figures_fail_no_run(true);
}

/// A script can change its figures in any way. Only intact figures become pictures.
fn hostile_figures_fail_no_run(is_warm: bool) {
    let mut server = connect(ServerBuilder::new().unchecked(), is_warm);
    let gcf =
        "from matplotlib._pylab_helpers import Gcf\nclass Any: pass\nm = Any(); m.canvas = Any()\n";
    for (script, count, stderr) in [
        ("plt.plot([1, 2]); print('on')", 1, ""),
        ("Gcf.figs[1] = None; plt.figure(2); plt.plot([1])", 1, "Figure 1 could not be drawn"),
        (
            "class Liar:\n    @property\n    def __class__(self): raise SystemExit(9)\n    \
             def __getattr__(self, name): raise SystemExit(9)\nm.canvas.figure = Liar(); \
             Gcf.figs[7] = m",
            0,
            "Figure 7 could not be drawn: SystemExit(9)",
        ),
        (
            "class Error(Exception):\n    def __repr__(self): raise KeyboardInterrupt\n\
             class Bad(plt.Line2D):\n    def draw(self, r): raise Error\n\
             fig, ax = plt.subplots(); ax.add_line(Bad([0], [0]))\nplt.figure(); plt.plot([1])",
            1,
            "",
        ),
        // The script's own `savefig` affects only the script's own calls.
        ("plt.Figure.savefig = lambda *a, **k: print('own')\nplt.plot([1])", 1, ""),
        ("plt.plot([1]).pop().figure.savefig = 5", 1, ""),
        ("Gcf.figs['x'] = Gcf.figs[1] = m", 0, "The remaining figures"),
        ("import sys\nplt.plot([1]); sys.stderr = None", 1, ""),
        ("import sys\nsys.modules['matplotlib._pylab_helpers'] = None; plt.plot([1])", 0, ""),
        ("import builtins\nplt.plot([1]); builtins.sorted = None", 0, ""),
        ("import os\nplt.plot([1]); os.write = lambda *a: 1 / 0", 0, ""),
        ("import os\nplt.plot([1])\nif os.fork() == 0: plt.show(); os._exit(0)\nos.wait()", 1, ""),
        ("for n in range(2000): plt.figure()", 0, ""),
        ("for n in range(300): plt.figure().add_subplot()", 4, ""),
    ] {
        let script = format!("import matplotlib.pyplot as plt\n{gcf}{script}\n");
        let result = server.execute(&script);
        let texts = result.texts.join("\n");
        assert_eq!(result.execution()["exit_code"], 0, "{script}\n{texts}");
        assert_eq!(checked(&result).len(), count, "{script}\n{texts}");
        assert!(texts.contains(stderr), "{script}\n{texts}");
    }
    server.finish();
}

/// After a script has drawn, the server prepares a warm interpreter with the modules for drawing. Until this
/// interpreter is ready, scripts that draw run in the other warm interpreters, which also remain afterwards.
fn scripts_that_draw_have_an_interpreter_of_their_own() {
    let builder = ServerBuilder::new().variable("QWED_MCP_WARM", "on");
    let mut server = builder.without("QWED_MCP_PRELOAD").connect();
    server.wait_until_warm();
    // Loading the module takes some hundred milliseconds of processor time. Importing a loaded module takes almost
    // none.
    let draws = "import time\nbegan = time.process_time()\nimport matplotlib.pyplot as plt\n\
                 print(time.process_time() - began < 0.05)\nplt.plot([1, 2])";
    let told = |is_loaded: &str| format!("STDOUT:\n{is_loaded}\n\n{DONE}");
    let first = server.execute(draws);
    assert_eq!((first.text(), first.pictures.len()), (&*told("False"), 1));
    let server = std::cell::RefCell::new(server);
    let is_ready = || {
        let result = server.borrow_mut().execute(draws);
        assert_eq!(
            (&result.pictures, &result.execution()["warm"]),
            (&first.pictures, &json!(true))
        );
        result.text() == told("True")
    };
    assert!(eventually(Duration::from_secs(60), is_ready).is_some());
    server.into_inner().finish();
}
