//! Rules against data that runs code when it is read.

use super::{Condition, Rule, Severity, Target};

use Target::{AllBut, Calls, Methods, Modules, Objects};

const HIDDEN: &str = "runs code that is hidden in the data";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "deserialisation/pickle",
        severity: Severity::Block,
        targets: &[
            AllBut("pickle", PICKLE_HARMLESS),
            AllBut("cPickle", PICKLE_HARMLESS),
            Modules("_pickle copyreg"),
            Target::Patterns("pickle.loads"),
        ],
        why: HIDDEN,
        remedy: "copy.deepcopy for a copy, json.loads for data",
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
        targets: &[Objects("marshal.loads marshal.load"), Target::Patterns("marshal.loads")],
        why: "creates code objects from data",
        remedy: "json.loads",
        matches: &["import marshal\nmarshal.loads(b'')", "from marshal import loads"],
        misses: &["import marshal\nmarshal.dumps(1)", "from marshal import dumps"],
    },
    Rule {
        id: "deserialisation/others",
        severity: Severity::Block,
        targets: &[
            Modules("shelve dill cloudpickle jsonpickle joblib hickle klepto"),
            Objects("pandas.read_pickle pandas.io.pickle numpy.lib.format.read_array"),
            Objects("sqlalchemy.PickleType torch.load torch.hub torch.jit.load"),
            Objects("networkx.read_gpickle multiprocess statsmodels.iolib.smpickle"),
            Calls("numpy.load", Condition::Given(2, "allow_pickle")),
            Methods("read_pickle to_pickle find_class persistent_load", Condition::Always),
            Target::Keywords("allow_pickle"),
            // These methods are dangerous with `allow_pickle`, which an unknown dictionary of keywords may contain.
            Methods("parse_raw parse_file", Condition::Given(usize::MAX, "allow_pickle")),
        ],
        why: HIDDEN,
        remedy: "json.loads",
        matches: &[
            "import shelve",
            "import dill",
            "from joblib import load",
            "import pandas as pd\npd.read_pickle('x')",
            "import io, numpy as np\nnp.load(io.BytesIO(b), None, True)",
            "import pydantic\nM.parse_raw(data, proto='pickle', allow_pickle=True)",
            "import pydantic\nM.parse_raw(data, **options)",
            "import pydantic\nfrom functools import partial\npartial(M.parse_raw, allow_pickle=True)",
        ],
        misses: &[
            "import json",
            "import pandas as pd\npd.DataFrame({'a': [1]})",
            "M.parse_raw('{}')",
            "np.load(buffer, allow_pickle=False)",
            "def store(x, allow_pickle): return x\nstore(1, allow_pickle=True)",
        ],
    },
    Rule {
        id: "deserialisation/yaml",
        severity: Severity::Block,
        targets: &[
            Calls("yaml.load yaml.load_all", Condition::UnsafeLoader),
            Objects("yaml.unsafe_load yaml.unsafe_load_all yaml.full_load yaml.full_load_all"),
            Objects("yaml.UnsafeLoader yaml.FullLoader yaml.Loader yaml.CLoader"),
            Objects("yaml.CUnsafeLoader yaml.CFullLoader yaml.loader yaml.constructor"),
        ],
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

const PICKLE_HARMLESS: &str = "
    DEFAULT_PROTOCOL HIGHEST_PROTOCOL PickleBuffer PickleError PicklingError UnpicklingError dump
    dumps";
