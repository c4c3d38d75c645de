"""Validates Verification Context documents with the published schema and the resolver of the package `qwed`.

Usage: resolve.py FILE, a file with one document on each line. Prints the number of documents and of verified ones.
"""
import copy
import json
import sys

from qwed_new.core.verification_context import (
    is_valid_document,
    resolve_document_proof_ref,
    validate_document,
)


def changed(value):
    """Yields copies of a value, each with one changed text or number in it."""
    if isinstance(value, dict):
        for name, part in value.items():
            for other in changed(part):
                yield {**value, name: other}
    elif isinstance(value, list):
        for place, part in enumerate(value):
            for other in changed(part):
                yield value[:place] + [other] + value[place + 1:]
    elif isinstance(value, str):
        yield value + "x"
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1


def bound(document):
    """Yields copies of a document, each with one change that its commitment must notice."""
    statement = copy.deepcopy(document)
    statement["object"]["formal_statement"] += " "
    yield statement
    for context in changed(document["context"]):
        yield {**document, "context": context}


def main():
    verified = changes = 0
    with open(sys.argv[1]) as lines:
        documents = [json.loads(line) for line in lines]
    for document in documents:
        validate_document(document)
        is_verified = document["verdict"] == "VERIFIED"
        assert resolve_document_proof_ref(document) == is_verified, document
        if is_verified:
            verified += 1
            # The model that translated the claim is not bound.
            other = copy.deepcopy(document)
            other["object"]["formalization"]["translator"] = "another model"
            assert resolve_document_proof_ref(other)
            for other in bound(document):
                changes += 1
                assert not resolve_document_proof_ref(other), other
                assert not is_valid_document(other), other
    print(len(documents), verified, changes)


main()
