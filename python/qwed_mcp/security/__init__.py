"""The gateway that decides calls, and the guard that judges skill manifests."""

from .provenance import SkillProvenanceGuard, SkillVerification
from .risk_gateway import Decision, RiskBasedExecutionGateway

__all__ = ["Decision", "RiskBasedExecutionGateway", "SkillProvenanceGuard", "SkillVerification"]
