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

        `trusted_registries`: accept only skills from these registries. None accepts all except known bad registries.
        `trusted_domains`: trusted domains of source URLs, in addition to the built-in domains.
        `require_digest`: refuse a manifest without a digest.

        Raises ValueError if an entry is not a host, because it would match nothing.
        """
        self._guard = {
            "trusted_registries": None if trusted_registries is None else sorted(trusted_registries),
            "trusted_domains": sorted(trusted_domains or ()),
            "require_digest": bool(require_digest),
        }
        _program.call("check_guard", guard=self._guard)

    def verify_skill(self, manifest: Mapping[str, Any]) -> SkillVerification:
        """Returns the judgement of a manifest. An unreadable field is a finding.

        Raises ValueError if the manifest is not a mapping, or cannot be written as JSON.
        """
        if not isinstance(manifest, Mapping):
            raise ValueError(f"a manifest is a mapping, not {type(manifest).__name__}")
        verification: SkillVerification = _program.call("verify_skill", manifest=dict(manifest), guard=self._guard)
        return verification
