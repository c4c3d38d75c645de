//! Rules against loading a module in other ways than by an import statement.

use super::{Condition, Rule, Severity, Special, Target};

use Target::{AllBut, Attributes, Calls, Methods, Modules, Objects};

const BY_NAME: &str = "imports a module whose name this analysis cannot see";
const IMPORT_IT: &str = "an import statement";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "imports/importlib",
        severity: Severity::Block,
        targets: &[
            AllBut("importlib", "metadata import_module invalidate_caches util"),
            AllBut("importlib.metadata", METADATA_HARMLESS),
            AllBut("importlib.util", "find_spec"),
            Methods("create_module locate_file", Condition::Always),
            Methods("get_code get_source", Condition::Imported("importlib")),
            Objects("sympy.import_module pandas.compat networkx.lazy_imports xml.dom.domreg"),
            Objects("sympy._import sympy.MODULES sympy.utilities.source"),
            Objects("pydantic.ImportString pydantic.types.ImportString sqlalchemy.dialects"),
            Objects("inspect.getmodule pydantic.PyObject"),
            Calls("importlib.import_module", Condition::ImportsModule),
            Calls("unittest.mock.patch unittest.mock.patch.dict", Condition::NamesObject),
            Objects("unittest.mock.patch.getter unittest.mock.patch.target"),
            Methods("getter", Condition::Imported("unittest")),
            Objects("unittest.mock.patch.get_original"),
            Methods("get_original", Condition::Imported("unittest")),
            Attributes("temp_original _mock_wraps"),
            Methods("import_string exec_module load_module source_to_code", Condition::Always),
            Methods("read_module _get_module_from_name load_backend_module", Condition::Always),
            Modules("imp pkgutil zipimport modulefinder pyclbr py"),
        ],
        why: BY_NAME,
        remedy: "an import statement; importlib.metadata.version and patch.dict(os.environ) are allowed",
        matches: &[
            "import importlib\nimportlib.import_module(name)",
            "import importlib\nimportlib.import_module('subpro' + 'cess')",
            "import importlib.machinery",
            "import zipimport",
            "import importlib\nimportlib.reload(x)",
            "from importlib.metadata import EntryPoint",
            "import pkgutil\npkgutil.resolve_name('os:system')",
            "from unittest.mock import patch\npatch('os.system')",
            "import importlib.util as u\nu.find_spec('posix').loader.create_module(s)",
            "from importlib.metadata import distribution",
            "import networkx.utils.backends as b\nb.entry_points",
            "import pydantic\npydantic.import_module('subprocess')",
            "import networkx as nx\nnx.lazy_imports._lazy_import('os')",
            "from unittest.mock import patch\npatch('os.getcwd').getter().system('id')",
            "from unittest import mock\nmock.patch.object(A, 'x').get_original()",
            "from unittest import mock\np = mock.patch.object(A, 'x')\np.start()\np.temp_original",
            "from unittest import mock\nmock.Mock(wraps=json).x._mock_wraps",
        ],
        misses: &[
            "from importlib.metadata import version\nversion('sympy')",
            "import importlib.metadata\nimportlib.metadata.version('sympy')",
            "import importlib\nimportlib.import_module('sympy')",
            "import importlib\nfor n in ['sympy', 'z3']: importlib.import_module(n)",
            "import importlib.util\nimportlib.util.find_spec('sympy')",
            "from importlib.util import find_spec",
            "from unittest.mock import patch\npatch('builtins.print')",
            "import matplotlib\nmatplotlib.use('Agg')",
            "import pandas as pd\npd.set_option('display.max_rows', 9)",
        ],
    },
    Rule {
        id: "imports/libraries",
        severity: Severity::Block,
        targets: &[
            Modules("annotated_doc boolean certifi charset_normalizer click contourpy coverage"),
            Modules("cyclonedx fontTools fqdn h11 idna iniconfig isoduration kiwisolver"),
            Modules("jsonschema_specifications license_expression multipart opentelemetry"),
            Modules("packageurl passlib pkg_resources pluggy py_serializable pygments rpds"),
            Modules("lark matplotlib.backends.registry matplotlib.ft2font matplotlib.texmanager"),
            Modules("pydantic.v1 python_multipart referencing rfc3339_validator sniffio"),
            Modules("rfc3986_validator rfc3987_syntax six sqlglot.executor sqlmodel starlette"),
            Modules("truststore tzdata uri_template"),
            AllBut("PIL", PIL_HARMLESS),
            AllBut("fastapi", FASTAPI_HARMLESS),
            // Expressions in templates reach the interpreter's internals.
            AllBut("jinja2", "StrictUndefined TemplateError Undefined UndefinedError"),
            AllBut("jsonschema", JSONSCHEMA_HARMLESS),
            AllBut("pytest", PYTEST_HARMLESS),
            Objects("fastapi.responses.FileResponse"),
            Methods("compile_expression compile_templates dump from_string", OF_TEMPLATES),
            // Objects of pandas have templates as attributes.
            Attributes("template_html template_html_style template_html_table template_latex"),
        ],
        why: "is the basis of other packages; parts of it reach files, modules or the network",
        remedy: "compute with the standard library, SymPy or NumPy",
        matches: &[
            "import pkg_resources",
            "import click",
            "from jsonschema import RefResolver",
            "from PIL import ImageShow",
            "import pytest\npytest.importorskip('os').system('id')",
            "from fastapi.responses import FileResponse",
            "from jinja2 import Environment",
            "import jinja2\njinja2.Template('{{ f.__globals__ }}').render(f=f)",
            "s = df.style\ntype(s.template_html)('{{ f.__globals__ }}').render(f=f)",
        ],
        misses: &[
            "import arrow, holidays",
            "import jsonschema\njsonschema.validate(x, y)",
            "from PIL import Image, ImageDraw",
            "import pytest\n@pytest.mark.parametrize('x', [1])\ndef f(x): pytest.approx(x)",
            "from fastapi import FastAPI\nfrom fastapi.responses import HTMLResponse",
            "from jinja2 import UndefinedError",
        ],
    },
    Rule {
        id: "imports/modules",
        severity: Severity::Block,
        targets: &[Objects("sys.modules sys.meta_path sys.path_hooks sys.path_importer_cache")],
        why: "reaches every module that is loaded, or changes how modules are found",
        remedy: IMPORT_IT,
        matches: &[
            "import sys\nsys.modules[name]",
            "import sys\nm = sys.modules.get(x)",
            "import sys\nsys.meta_path.insert(0, f)",
            "import sys\nf(sys.modules)",
            "from sys import modules",
        ],
        misses: &[
            "import sys\nprint('sympy' in sys.modules)",
            "import sys\nm = sys.modules[__name__]",
            "import sys\nlen(sys.modules)",
        ],
    },
    Rule {
        id: "imports/loaders",
        severity: Severity::Block,
        targets: &[
            Objects("builtins.__loader__ builtins.__spec__"),
            Attributes("__loader__ __spec__"),
        ],
        why: "a loader reads files and makes modules",
        remedy: IMPORT_IT,
        matches: &["__loader__.get_data('x')", "import json\njson.__spec__.loader"],
        misses: &["import json\nprint(json.__name__, json.__file__)"],
    },
    Rule {
        id: "imports/private-module",
        severity: Severity::Block,
        targets: &[Target::Special(Special::PrivateModule)],
        why: "private modules bypass the checks of the public modules",
        remedy: "the public module: threading for _thread",
        matches: &["import _frozen_importlib", "from _operator import add", "import _thread"],
        misses: &["from __future__ import annotations", "import mylib._private"],
    },
    Rule {
        id: "imports/private-member",
        severity: Severity::Block,
        targets: &[Target::Special(Special::PrivateMember)],
        why: "private members of libraries bypass the checks of the public members",
        remedy: "the public member",
        matches: &[
            "import bz2\nbz2._builtin_open('x')",
            "import dataclasses\ndataclasses._create_fn('f', [], ['x'])",
            "from collections import _iskeyword",
            "from numpy.lib._format_impl import read_array",
            "from numpy.testing._private import utils",
        ],
        misses: &[
            "import collections\nP = collections.namedtuple('P', 'x')\nP(1)._asdict()",
            "import math\nmath.__name__",
            "self._value",
            "from sympy.core.mul import _keep_coeff",
        ],
    },
    Rule {
        id: "encoding/declaration",
        severity: Severity::Block,
        targets: &[Target::Special(Special::Encoding)],
        why: "with another encoding, Python would run a different program than the analysed one",
        remedy: "leave the declaration out: the script is read as UTF-8",
        matches: &["# coding: utf-7\nx = 1", "#!/usr/bin/python\n# vim: set fileencoding=gbk :\n"],
        misses: &[
            "# coding: utf-8\nx = 1",
            "# -*- coding: ascii -*-\nx = 1",
            "x = 1\n\n# coding: utf-7",
            "print(1)\n# encoding: gbk",
        ],
    },
];

const OF_TEMPLATES: Condition = Condition::Imported("jinja2");

/// Modules of `PIL` that work on images in memory. The other modules open files, start viewers or import modules by
/// name.
const PIL_HARMLESS: &str = "
    ExifTags Image ImageChops ImageColor ImageDraw ImageEnhance ImageFilter ImageFont ImageMorph
    ImageOps ImagePalette ImageStat ImageTk ImageTransform UnidentifiedImageError";

/// Members of `fastapi` that are harmless, because they describe a server without starting it.
const FASTAPI_HARMLESS: &str = "
    APIRouter BackgroundTasks Body Cookie Depends FastAPI File Form HTTPException Header Path Query
    Request Response Security UploadFile WebSocket responses status";

/// Members of `jsonschema` that are harmless, because they only check a document against a schema.
const JSONSCHEMA_HARMLESS: &str = "
    Draft201909Validator Draft202012Validator Draft3Validator Draft4Validator Draft6Validator
    Draft7Validator ErrorTree FormatChecker SchemaError ValidationError exceptions validate";

/// Members of `pytest` that scripts need to write tests.
const PYTEST_HARMLESS: &str = "
    ExitCode RaisesGroup approx deprecated_call exit fail fixture main mark param raises skip
    warns xfail";

/// Members of `importlib.metadata` that are harmless, because they only describe packages.
const METADATA_HARMLESS: &str = "
    PackageMetadata PackageNotFoundError metadata packages_distributions requires version";
