//! Lists the functions that may open the inputs of a call: files that the caller passes with the script.

use super::{Rule, Severity};

/// The rule in a finding about a script with inputs that opens a file in a way that is not permitted for inputs.
pub(crate) static WITH_INPUTS: Rule = Rule {
    id: "files/inputs",
    severity: Severity::Block,
    targets: &[],
    why: "opens a file in another way than an input may be opened",
    remedy: "write the name of the input in quotes, f = open(\"data.csv\"), and pass f to other readers",
    matches: &[],
    misses: &[],
};

/// How a function uses the file that its first argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opens {
    /// Returns the open file. The function is native code, so a script cannot make it open another file.
    File,
    /// Opens the file as a database. The function is native code too.
    Database,
    /// Reads the file with Python code, which a script could change.
    Content,
}

/// Functions that may be called with the name of an input as their first argument.
pub(crate) struct Reader {
    /// The qualified names, separated by spaces.
    pub(crate) paths: &'static str,
    /// The keyword of the first argument; empty if the argument has no keyword.
    pub(crate) keyword: &'static str,
    pub(crate) opens: Opens,
    /// The keyword of the second argument if the argument is a mode; otherwise empty. Only modes for reading are
    /// permitted.
    pub(crate) mode: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader, and for a test"))]
    pub(crate) why: &'static str,
}

const fn content(paths: &'static str, keyword: &'static str, why: &'static str) -> Reader {
    Reader { paths, keyword, opens: Opens::Content, mode: "", why }
}

/// The functions that may open an input. Functions that run code from the file, such as `pickle.load`, are not listed.
/// Functions that use the file name for anything but opening the file are not listed either. The rules about all other
/// arguments of a call still apply.
pub(crate) const READERS: &[Reader] = &[
    Reader {
        paths: "builtins.open io.open",
        keyword: "file",
        opens: Opens::File,
        mode: "mode",
        why: "the usual way to read a file",
    },
    Reader {
        paths: "sqlite3.connect",
        keyword: "database",
        opens: Opens::Database,
        mode: "",
        why: "queries; other rules refuse statements that open another database",
    },
    content(
        "pandas.read_csv pandas.read_table pandas.read_fwf pandas.read_stata pandas.read_sas",
        "filepath_or_buffer",
        "tables; they return data only",
    ),
    content("pandas.read_json", "path_or_buf", "a table as JSON"),
    content("pandas.read_excel", "io", "a table of a spreadsheet"),
    content("pandas.ExcelFile pandas.read_xml", "path_or_buffer", "tables of a document"),
    content("pandas.read_parquet pandas.read_feather pandas.read_orc", "path", "tables in columns"),
    content("numpy.loadtxt numpy.genfromtxt", "fname", "numbers as text"),
    content("numpy.fromfile", "file", "an array of numbers"),
    Reader {
        mode: "mmap_mode",
        ..content("numpy.load", "file", "arrays; other rules refuse pickled objects in them")
    },
    Reader { mode: "mode", ..content("zipfile.ZipFile", "file", "members of an archive") },
    content("zipfile.is_zipfile", "filename", "looks at the first bytes"),
    Reader { mode: "mode", ..content("tarfile.open", "name", "members of an archive") },
    Reader {
        mode: "mode",
        ..content("gzip.open bz2.open lzma.open", "filename", "one compressed stream")
    },
    content(
        "xml.etree.ElementTree.parse xml.etree.ElementTree.iterparse",
        "source",
        "a document; the parser loads no other file",
    ),
    Reader { mode: "mode", ..content("wave.open", "f", "samples of a sound") },
    content("PIL.Image.open", "fp", "an image"),
    content(
        "networkx.read_adjlist networkx.read_edgelist networkx.read_gml networkx.read_graphml \
         networkx.read_weighted_edgelist",
        "path",
        "graphs as text",
    ),
];

/// Modes for reading.
pub(crate) const MODES: &[&str] =
    &["r", "rt", "tr", "rb", "br", "r:*", "r:gz", "r:bz2", "r:xz", "r|*"];

/// Classes of paths. A script may call the methods in [`PATH_READERS`] of such a path if it creates the path in the
/// same expression: `Path("data.csv").read_text()`.
pub(crate) const PATHS: &[&str] = &["pathlib.Path", "pathlib.PosixPath"];
pub(crate) const PATH_READERS: &[&str] = &["open", "read_bytes", "read_text"];

/// The permitted keyword arguments of `open`. With `opener`, `open` could open another file. With `buffering`, `open`
/// could return an unbuffered file. Through the class of this unbuffered file, the script could open other files.
pub(crate) const OPEN_KEYWORDS: &[&str] = &["encoding", "errors", "file", "mode", "newline"];

/// Attributes that a script may assign if it also uses a reader that is written in Python. By assigning another
/// attribute, such as `pathlib.sys`, the script could replace a function that the reader uses to find the file.
pub(crate) const HARMLESS_ATTRIBUTES: &[&str] =
    &["columns", "dps", "index", "name", "prec", "pretty"];

/// Names with which a script may set an attribute without the analysis noticing.
#[rustfmt::skip]
pub(crate) const SETTING: &[&str] = &[
    "MonkeyPatch", "__builtins__", "__class__", "__closure__", "__delattr__", "__dict__",
    "__getattribute__", "__import__", "__path__", "__prepare__", "__reduce__", "__reduce_ex__",
    "__set__", "__setattr__", "__setstate__", "argparse", "attrgetter", "cell_contents", "copyreg",
    "delattr", "doctest", "get_type_hints", "globals", "import_module", "importlib", "inspect",
    "locals", "methodcaller", "mock", "modules", "optparse", "patch", "setattr", "timeit",
    "update_wrapper", "vars", "wraps",
];

/// Functions that run files of the current folder as code, or read such files as settings. The analysis refuses these
/// functions if the tool call has inputs, because the inputs are files in the current folder.
pub(crate) const RUNS_FILES: &[&str] =
    &["_pytest.config.main", "pytest.console_main", "pytest.main"];

/// The rules that [`WITH_INPUTS`] replaces in the findings about a call with inputs, because its remedy explains
/// inputs.
#[rustfmt::skip]
pub(crate) const REPLACED: &[&str] = &[
    "files/archives", "files/data", "files/databases", "files/documents", "files/io", "files/open",
    "files/pathlib", "files/readers",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reader_has_a_reason_and_one_row() {
        let mut seen = BTreeSet::new();
        for Reader { paths, why, .. } in READERS {
            assert!(!why.is_empty(), "{paths}");
            assert!(paths.split(' ').all(|path| seen.insert(path)), "{paths}");
        }
    }
}
