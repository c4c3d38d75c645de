"""The AI bill of materials."""

from typing import Optional, Sequence, TypedDict

from .. import _program


class Component(TypedDict):
    """One part of a pipeline."""

    name: str
    type: str


class Components(TypedDict):
    """The parts of a pipeline, by kind."""

    models: "list[Component]"
    verification_engines: "list[Component]"
    mcp_tools: "list[Component]"


class Manifest(TypedDict):
    """A bill of materials."""

    timestamp: str
    components: Components
    compliance: str
    manifest_hash: str


class AIBOMGenerator:
    """Creates AI bills of materials."""

    @staticmethod
    def generate_manifest(
        llm_model: str,
        qwed_engines_used: Optional[Sequence[str]] = None,
        mcp_tools_used: Optional[Sequence[str]] = None,
    ) -> Manifest:
        """Returns the bill of materials of these names. Equal names in the same order have the same `manifest_hash`.

        Raises ValueError if `llm_model` is empty.
        """
        manifest: Manifest = _program.call(
            "generate_manifest",
            llm_model=llm_model or "",
            qwed_engines_used=list(qwed_engines_used or ()),
            mcp_tools_used=list(mcp_tools_used or ()),
        )
        return manifest
