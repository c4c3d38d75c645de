#!/usr/bin/env python3
"""Compares skill manifests and AI bills of materials with the Python implementation's.

    tests/differential/supply_chain.py BINARY [--manifests N] [--bills N] [--seed S]

BINARY is a `qwed-mcp`. Generates valid and broken manifests, and verifies them with both under several options.
`verified`, `risk_level` and the number of findings must be equal, except for manifests with something that the Python
implementation accepts wrongly. Those exceptions are in HOLES, each with its reason, and each must occur. Also generates
bills from names of all kinds of characters; their hashes must be equal. The Python implementation comes from PyPI into
`target/peer/`. The exit code is 1 if a difference is not explained.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "benches"))

from contestants import install_peer  # noqa: E402

FILES_PER_CALL = 100

# Manifests that the Python implementation accepts or judges differently, and why ours does not.
HOLES = {
    "registry-substring": "it looks for a blocked registry anywhere in the text: other hosts that contain it are blocked",
    "registry-disguised": "it compares the registry as text: full-width letters, punycode, userinfo or a backslash get by",
    "url-userinfo": "it trusts a host with a user name in front, which hides where a URL leads",
    "url-control": "it takes URLs with control characters or backslashes, which clients read differently",
    "url-port": "it trusts any port of a trusted host",
    "url-trailing-dot": "it does not know that a trailing dot is the same host, and trusts or blocks by text",
    "url-look-alike": "it takes hosts in other spellings than the one that people see",
    "url-padded": "it trims a URL, and trusts one that a program without that step reads otherwise",
    "blank-name": "it takes names of joiners, variation selectors or empty Braille patterns, of which a person sees nothing",
    "path": "it takes names and versions that an installer may use as a path to other folders",
    "unseen": "it takes invisible and control characters, and versions in digits of other scripts",
    "duplicate-field": "it takes the last of several fields of a name; an installer may take the first",
}

DIGITS = "0123456789abcdef"
OPTIONS: list[tuple[list[str], dict[str, Any]]] = [
    ([], {}),
    (["--no-require-digest"], {"require_digest": False}),
    (["--trusted-domain", "example.org"], {"trusted_domains": ["example.org"]}),
    (
        ["--trusted-registry", "github.com", "--trusted-registry", "skills.example.org"],
        {"trusted_registries": ["github.com", "skills.example.org"]},
    ),
]

PEER = """
import json, sys
from qwed_mcp.observability.aibom import AIBOMGenerator
from qwed_mcp.security import SkillProvenanceGuard
work, answers = json.load(sys.stdin), {"manifests": [], "bills": []}
for text, options in work["manifests"]:
    options = {name: set(value) if isinstance(value, list) else value for name, value in options.items()}
    try:
        result = SkillProvenanceGuard(**options).verify_skill(json.loads(text))
        answers["manifests"].append([result["verified"], result["risk_level"], len(result["findings"]), result["findings"]])
    except Exception as error:
        answers["manifests"].append(["error", type(error).__name__, 0, [str(error)]])
for model, engines, tools in work["bills"]:
    bom = AIBOMGenerator.generate_manifest(llm_model=model, qwed_engines_used=engines, mcp_tools_used=tools)
    answers["bills"].append(bom["manifest_hash"])
json.dump(answers, sys.stdout)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=Path)
    parser.add_argument("--manifests", type=int, default=2000)
    parser.add_argument("--bills", type=int, default=250)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    chance = random.Random(arguments.seed)

    manifests = [generated(chance, index) for index in range(arguments.manifests)]
    bills = [bill(chance) for _ in range(arguments.bills)]
    theirs = judged_by_peer([(text, OPTIONS[option][1]) for text, option, _ in manifests], bills)
    ours = judged(arguments.binary, [(text, option) for text, option, _ in manifests])
    wrong = differences(manifests, ours, theirs["manifests"])
    for (model, engines, tools), expected in zip(bills, theirs["bills"], strict=True):
        found = bill_hash(arguments.binary, model, engines, tools)
        if found != expected:
            wrong.append(f"bill {model!r} {engines!r} {tools!r}: {found} is not {expected}")
    print(f"{len(bills)} bills of materials: equal hashes")
    for line in wrong[:20]:
        print(f"    NOT EXPLAINED: {line}")
    return 1 if wrong else 0


def differences(manifests: list, ours: list, theirs: list) -> list[str]:
    """Returns the differences that no hole explains, and the holes that show no difference."""
    wrong, explained, trusted = [], Counter(), 0
    for (text, option, hole), our, their in zip(manifests, ours, theirs, strict=True):
        trusted += our[0] is True
        if our[:3] == their[:3]:
            continue
        if hole is None:
            wrong.append(f"{text} with {OPTIONS[option][0]}: ours {our}, theirs {their}")
        else:
            explained[hole] += 1
    print(f"{len(manifests)} manifests: {trusted} trusted by ours; different by a closed hole: {explained.total()}")
    for hole, reason in HOLES.items():
        print(f"    {explained[hole]:4} {hole}: {reason}")
        if not explained[hole]:
            wrong.append(f"{hole} no longer shows a difference")
    return wrong


def digest(chance: random.Random) -> str:
    name, count = chance.choice([("sha256", 64), ("sha384", 96), ("sha512", 128)])
    return f"{name}:{''.join(chance.choices(DIGITS, k=count))}"


def valid(chance: random.Random) -> dict[str, Any]:
    host = chance.choice(["github.com", "gitlab.com", "bitbucket.org", "pypi.org", "npmjs.com", "raw.github.com"])
    manifest: dict[str, Any] = {
        "name": chance.choice(["my-skill", "Ä skill", "x" * 300, " padded "]),
        "version": chance.choice(["1.0.0", "2026.11", "v1"]),
        "source_url": f"https://{host}/org/{chance.choice(['skill', 'a/b?c=d#e', ''])}",
        "registry": chance.choice(["github.com", "skills.example.org", "pypi.org"]),
        "digest": digest(chance),
    }
    for field, values in {
        "download_count": [11, 150, 999, 1001, 123456],
        "description": ["reads the api_key", "eval(x)", "text"],
        "author": ["somebody", {"name": "eval(x)"}],
        "homepage": ["https://example.org", ""],
        "tags": [["a", "b"], [], [[1, None, True]]],
        "settings": [{"a": {"b": "c"}}, {}],
    }.items():
        if chance.random() < 0.5:
            manifest[field] = chance.choice(values)
    return manifest


SUSPICIOUS = [
    "eval(x)", "exec (x)", "__import__('os')", "os.system('id')", "subprocess.run(['id'])", "requests.get('http://x')",
    "open('/etc/passwd')", "API_KEY", "api-key", "credentials", "password", "base64.b64decode(x)", "socket.socket()",
    "evaluate(x)", "executor", "my_os.systems", "eval\n(x)", "urllib.request.urlopen(u)", "Eval(x)", "curl x | sh",
]  # fmt: skip
WRONG_TYPES = [None, True, False, 0, -1, 1.5, 1e300, [], {}, ["x"], {"a": 1}]


def broken(chance: random.Random, manifest: dict[str, Any]) -> None:
    """Makes one change, good or bad, that both should judge in the same way."""
    field = chance.choice(["name", "version", "source_url", "registry", "digest", "download_count"])
    kind = chance.randrange(8)
    if kind == 0:
        manifest.pop(field, None)
    elif kind == 1:
        manifest[field] = chance.choice(WRONG_TYPES)
    elif kind == 2:
        manifest[field] = chance.choice(["", " ", "\t"])
    elif kind == 3:
        manifest["registry"] = chance.choice(["clawdhub.com", "MoltBot.io", "skillhub.ai", "unknown.example", "x"])
    elif kind == 4:
        manifest["source_url"] = chance.choice(
            ["http://github.com/x", "ftp://pypi.org", "https://evil.example/github.com", "https://github.com.evil.example",
             "https://notgithub.com/x", "https://git.example.org/x", "https://example.org", "not a url", "https://"]
        )  # fmt: skip
    elif kind == 5:
        good = digest(chance)
        manifest["digest"] = chance.choice(
            [good[:-1], good + "0", good.replace(":", "="), "md5:" + "0" * 32, "sha256:", ":" + "0" * 64,
             "sha256:" + "g" * 64, good.upper(), "sha1:" + "0" * 40, "x", "sha256:" + "0" * 63 + "z"]
        )  # fmt: skip
    elif kind == 6:
        manifest["download_count"] = chance.choice([0, 9, 10, 1000, 5000, -5, 10**20, 1000.0, 11.0, "150"])
    else:
        text = chance.choice(SUSPICIOUS)
        name = chance.choice(["hook", "install", "tools", "description", "license"])
        manifest[name] = chance.choice([text, [text], {"run": [text, text]}, {"a": {"b": {"c": text}}}])


def with_hole(chance: random.Random, manifest: dict[str, Any], hole: str) -> str | None:
    """Makes a change that the two may judge differently. Returns the text, if a Python object cannot express it."""
    pick = chance.choice
    if hole == "registry-substring":
        manifest["registry"] = pick(["notclawdhub.com", "clawdhub.com.example.org", "my-moltbot.io"])
    elif hole == "registry-disguised":
        manifest["registry"] = pick(["ｃlawdhub.com", "xn--clawdhb-x5a.com", "user@pypi.org", "pypi.org\\x", "github.com/../x y"])
    elif hole == "url-userinfo":
        manifest["source_url"] = pick(["https://pypi.org@github.com/x", "https://a:b@github.com", "https://@github.com"])
    elif hole == "url-control":
        manifest["source_url"] = pick(["https://github.com\\@evil.example", "https://git\thub.com/x", "https://github.com/\nx"])
    elif hole == "url-port":
        manifest["source_url"] = pick(["https://github.com:8443/x", "https://github.com:443/x", "https://pypi.org:/"])
    elif hole == "url-trailing-dot":
        manifest["source_url"] = pick(["https://github.com./x", "https://pypi.org."])
    elif hole == "url-look-alike":
        manifest["source_url"] = pick(["https://GitHub.com/x", "https://xn--gthub-cta.github.com/x", "https://ｇithub.com"])
    elif hole == "url-padded":
        manifest["source_url"] = pick([" https://github.com/x", "https://pypi.org/x ", "\u2003https://gitlab.com/x"])
    elif hole == "blank-name":
        manifest["name"] = pick(["\u2800", "\ufe0f", "\u200d", "\u2800 \u200c"])
    elif hole == "path":
        field = pick(["name", "version"])
        manifest[field] = pick(["../../x", "..", "/etc", "a/../b", "a\\b"])
    elif hole == "unseen":
        field, text = pick([("name", "a\u200bb"), ("name", "a\x1b[2J"), ("version", "1.\u0660.0"), ("version", "1\u202e")])
        manifest[field] = text
    elif hole == "duplicate-field":
        text = json.dumps(manifest)
        return '{"registry": "clawdhub.com", ' + text[1:]
    return None


def generated(chance: random.Random, index: int) -> tuple[str, int, str | None]:
    """Returns a manifest's text, the index of its options, and the hole that it shows."""
    manifest = valid(chance)
    hole = None
    if index % 10 == 0:
        hole = list(HOLES)[index // 10 % len(HOLES)]
    else:
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            broken(chance, manifest)
    text = with_hole(chance, manifest, hole) if hole else None
    option = 0 if hole else chance.randrange(len(OPTIONS))
    return text or json.dumps(manifest, ensure_ascii=chance.random() < 0.5), option, hole


def bill(chance: random.Random) -> tuple[str, list[str], list[str]]:
    def name() -> str:
        alphabet = pick([range(0x20, 0x7F), range(1, 0x100), range(0x100, 0xD800), range(0x1F300, 0x1F700)])
        return "".join(chr(pick(alphabet)) for _ in range(chance.randrange(1, 12)))

    pick = chance.choice
    return name(), [name() for _ in range(chance.randrange(4))], [name() for _ in range(chance.randrange(4))]


def bill_hash(binary: Path, model: str, engines: list[str], tools: list[str]) -> str:
    named = [f"--engine={engine}" for engine in engines] + [f"--tool={tool}" for tool in tools]
    done = subprocess.run([binary, "aibom", f"--llm-model={model}", *named], capture_output=True, check=True)
    return json.loads(done.stdout)["manifest_hash"]


def judged_by_peer(manifests: list, bills: list) -> dict[str, list]:
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    work = json.dumps({"manifests": manifests, "bills": bills})
    peer = install_peer()
    done = subprocess.run(
        [peer.interpreter, "-c", PEER], input=work, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"the Python implementation failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def judged(binary: Path, manifests: list[tuple[str, int]]) -> list:
    answers: list = [None] * len(manifests)
    with tempfile.TemporaryDirectory() as folder:
        for option, (flags, _) in enumerate(OPTIONS):
            files = {}
            for index, (text, wanted) in enumerate(manifests):
                if wanted == option:
                    file = Path(folder) / f"{index}.json"
                    file.write_text(text, encoding="utf-8")
                    files[index] = file
            indices = list(files)
            for start in range(0, len(indices), FILES_PER_CALL):
                part = indices[start : start + FILES_PER_CALL]
                named = [str(files[index]) for index in part]
                command = [binary, "verify-skill", "--format", "json", *flags, *named]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode not in (0, 1):
                    sys.exit(f"{binary} verify-skill failed: {done.stderr[-2000:]}")
                for index, skill in zip(part, json.loads(done.stdout)["skills"], strict=True):
                    findings = skill["findings"]
                    answers[index] = [skill["verified"], skill["risk_level"], len(findings), findings]
    return answers


if __name__ == "__main__":
    sys.exit(main())
