"""The files of examples/deploy are what their tools take: checked by schemas that come from the registries, offline."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "examples" / "deploy"
MANIFESTS: Final[list[dict[str, Any]]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
NEWEST: Final = "1.37"
OLDEST: Final = "1.31"


def linted(compose: Path) -> subprocess.CompletedProcess[str]:
    linter = ROOT / ".venv.engines/node/node_modules/.bin/dclint"
    words = [str(linter), "--max-warnings", "0", "--config", str(Path(__file__).with_name("dclint.yaml")), str(compose)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def test_the_compose_file_is_one() -> None:
    found = linted(DEPLOY / "compose.yaml")
    assert (found.returncode, found.stderr) == (0, ""), found.stdout


def test_a_compose_file_with_a_mistake_is_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DEPLOY / "compose.yaml").read_text().replace("healthcheck:", "healthchek:"))
    found = linted(wrong)
    assert found.returncode == 1
    assert '/services/postgres", schemaPath="#/additionalProperties"' in found.stdout


@pytest.mark.parametrize("release", [OLDEST, NEWEST])
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_each_manifest_is_one(manifest: dict[str, Any], release: str) -> None:
    kubernetes_validate.validate(manifest, release, strict=True)


def test_a_manifest_with_a_mistake_is_noticed() -> None:
    (deployment,) = [one for one in MANIFESTS if one["kind"] == "Deployment"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**deployment, "spec": {**deployment["spec"], "replica": 3}}, NEWEST, strict=True)


def test_what_names_another_object_names_one_that_is_there() -> None:
    labels = {
        (one["kind"], one["metadata"]["name"]): one["spec"]["template"]["metadata"].get("labels", {})
        for one in MANIFESTS
        if one["kind"] in {"Deployment", "StatefulSet"}
    }
    for one in MANIFESTS:
        if one["kind"] == "Service":
            assert one["spec"]["selector"] in labels.values(), one["metadata"]["name"]
        if one["kind"] == "StatefulSet":
            assert one["spec"]["serviceName"] in {s["metadata"]["name"] for s in MANIFESTS if s["kind"] == "Service"}
    images = {c["image"] for one in MANIFESTS for c in _containers(one) if "shop-sagas" in c["image"]}
    assert len(images) == 1, "workers and what migrates are of one version"


def _containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    return found
