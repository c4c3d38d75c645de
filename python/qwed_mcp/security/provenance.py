"""The guard that judges the manifests of skills."""

from typing import AbstractSet, Any, Mapping, Optional, TypedDict

from .. import _program


class SkillVerification(TypedDict):
    """The judgement of one manifest."""

    verified: bool
    status: str
    skill_name: str
    risk_level: str
    findings: "list[str]"
    message: str


class SkillProvenanceGuard:
    """Judges skill manifests before a skill is loaded."""

    def __init__(
        self,
        trusted_registries: Optional[AbstractSet[str]] = None,
        trusted_domains: Optional[AbstractSet[str]] = None,
        require_digest: bool = True,
    ) -> None:
        """Creates a guard.

        `trusted_registries`: accept skills from these registries alone; None for all but known bad ones.
        `trusted_domains`: domains of source URLs that are trusted beside the built-in ones.
        `require_digest`: refuse a manifest without a digest.

        Raises ValueError where an entry names no host: it would cover nothing.
        """
        self._guard = {
            "trusted_registries": None if trusted_registries is None else sorted(trusted_registries),
            "trusted_domains": sorted(trusted_domains or ()),
            "require_digest": bool(require_digest),
        }
        _program.call("check_guard", guard=self._guard)

    def verify_skill(self, manifest: Mapping[str, Any]) -> SkillVerification:
        """Returns the judgement of a manifest; what cannot be read in it is a finding.

        Raises ValueError where the manifest is no mapping, or cannot be written as JSON.
        """
        if not isinstance(manifest, Mapping):
            raise ValueError(f"a manifest is a mapping, not {type(manifest).__name__}")
        verification: SkillVerification = _program.call("verify_skill", manifest=dict(manifest), guard=self._guard)
        return verification
