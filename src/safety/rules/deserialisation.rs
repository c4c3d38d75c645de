//! Data that runs code when it is read.

use super::{Condition, Rule, Severity, Target};

use Target::{AllBut, Call, Method, Module, Object};

const HIDDEN: &str = "runs code that is hidden in the data";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "deserialisation/pickle",
        severity: Severity::Block,
        targets: &[
            AllBut("pickle", PICKLE_HARMLESS),
            AllBut("cPickle", PICKLE_HARMLESS),
            Module("_pickle"),
            Module("copyreg"),
        ],
        patterns: &["pickle.loads"],
        why: HIDDEN,
        remedy: "json.loads",
        matches: &[
            "import pickle\npickle.loads(b'')",
            "import pickle as p\np.loads(b'')",
            "from pickle import loads",
            "import pickle\nload = pickle.loads",
            "import pickle\npickle.Unpickler(f).load()",
            "import pickle\npickle._loads(b'')",
        ],
        misses: &[
            "import pickle\npickle.dumps(1)",
            "from json import loads\nloads('1')",
            "import json\njson.loads('1')",
            "try:\n    f()\nexcept pickle.PicklingError: pass",
        ],
    },
    Rule {
        id: "deserialisation/marshal",
        severity: Severity::Block,
        targets: &[Object("marshal.loads"), Object("marshal.load")],
        patterns: &["marshal.loads"],
        why: "makes code objects out of data",
        remedy: "json.loads",
        matches: &["import marshal\nmarshal.loads(b'')", "from marshal import loads"],
        misses: &["import marshal\nmarshal.dumps(1)", "from marshal import dumps"],
    },
    Rule {
        id: "deserialisation/others",
        severity: Severity::Block,
        targets: &[
            Module("shelve"),
            Module("dill"),
            Module("cloudpickle"),
            Module("jsonpickle"),
            Module("joblib"),
            Module("hickle"),
            Module("klepto"),
            Object("pandas.read_pickle"),
            Object("pandas.io.pickle"),
            Object("numpy.lib.format.read_array"),
            Call("numpy.load", Condition::Keyword(&["allow_pickle"])),
            Object("sqlalchemy.PickleType"),
            Object("torch.load"),
            Object("torch.hub"),
            Object("torch.jit.load"),
            Object("networkx.read_gpickle"),
            Object("multiprocess"),
            Object("statsmodels.iolib.smpickle"),
            Method("read_pickle", Condition::Always),
            Method("to_pickle", Condition::Always),
            Method("find_class", Condition::Always),
            Method("persistent_load", Condition::Always),
        ],
        patterns: &[],
        why: HIDDEN,
        remedy: "json.loads",
        matches: &[
            "import shelve",
            "import dill",
            "from joblib import load",
            "import pandas as pd\npd.read_pickle('x')",
        ],
        misses: &["import json", "import pandas as pd\npd.DataFrame({'a': [1]})"],
    },
    Rule {
        id: "deserialisation/yaml",
        severity: Severity::Block,
        targets: &[
            Call("yaml.load", Condition::UnsafeLoader),
            Call("yaml.load_all", Condition::UnsafeLoader),
            Object("yaml.unsafe_load"),
            Object("yaml.unsafe_load_all"),
            Object("yaml.full_load"),
            Object("yaml.full_load_all"),
            Object("yaml.UnsafeLoader"),
            Object("yaml.FullLoader"),
            Object("yaml.Loader"),
            Object("yaml.CLoader"),
            Object("yaml.CUnsafeLoader"),
            Object("yaml.CFullLoader"),
            Object("yaml.loader"),
            Object("yaml.constructor"),
        ],
        patterns: &[],
        why: HIDDEN,
        remedy: "yaml.safe_load",
        matches: &[
            "import yaml\nyaml.load('a: 1')",
            "import yaml\nyaml.load('a: 1', Loader=yaml.UnsafeLoader)",
            "from yaml import unsafe_load",
        ],
        misses: &[
            "import yaml\nyaml.safe_load('a: 1')",
            "import yaml\nyaml.load('a: 1', Loader=yaml.SafeLoader)",
        ],
    },
];

const PICKLE_HARMLESS: &[&str] = &[
    "DEFAULT_PROTOCOL",
    "HIGHEST_PROTOCOL",
    "PickleBuffer",
    "PickleError",
    "PicklingError",
    "UnpicklingError",
    "dump",
    "dumps",
];
