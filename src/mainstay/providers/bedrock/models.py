"""Models of Amazon Bedrock. Their ids name a region, a vendor and a release: `eu.anthropic.claude-…-v1:0`."""

from __future__ import annotations

import re

from mainstay.core.model_info import ModelInfo
from mainstay.providers.anthropic.models import ANTHROPIC_MODELS
from mainstay.providers.model_lookup import describe_model

_ANTHROPIC = re.compile(r"(?:[a-z]{2,6}\.)?anthropic\.(.+)")
_REGION = re.compile(r"(?:[a-z]{2,6}\.)?([a-z0-9]+\..+)")


def find_bedrock_model(model: str) -> ModelInfo:
    anthropic, region = _ANTHROPIC.fullmatch(model), _REGION.fullmatch(model)
    names = [model]
    if region is not None:
        names += [f"regional.{region[1]}", region[1], f"global.{region[1]}"]
    alias = anthropic[1].replace(".", "-") if anthropic is not None else model
    models = ANTHROPIC_MODELS if anthropic is not None else {}
    return describe_model(model, models, price_tables=("bedrock",), alias=alias, price_names=names)
