"""Where a job lets sites write: nowhere but in each site's own folder of the run."""

from __future__ import annotations

import pytest

from colonnade.config import parse_config
from colonnade.config.choices import PLACEHOLDER, schema_of, section, usable
from colonnade.config.parse import parse_section
from colonnade.config.registry import GROUPS
from colonnade.deployment.job import JobConfig, job_of
from colonnade.errors import ConfigurationError
from test_deployment import in_one_process  # noqa: F401  # a fixture
from toy_sites import Mesh, configuration, play, prepared

pytestmark = pytest.mark.usefixtures("no_pictures")


def kept_in(folder):
    """Return methods that keep surrogates on a disk, by where a job would say so."""
    disk = {"storage": "disk"} | ({} if folder is None else {"folder": str(folder)})
    top_k = {"codec": "top_k", "ratio": 0.5}
    link = {"link": "error_feedback", "codec": top_k, "storage": disk}
    return {
        "method.surrogates.folder": {"name": "efvfl", "embedding": top_k, "surrogates": disk},
        "method.uplink.link.storage.folder": {"uplink": {"uplink": "plain", "link": link}},
    }


def paths_in(schema, at, seen):
    """Yield where a schema, or that of a part which it lets choose, has the path of a file."""
    for key, each in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if key == "format" and "path" in str(each):
            yield at
        elif key == PLACEHOLDER and each not in seen:
            seen.add(each)
            for part in usable(GROUPS[each]):
                yield from paths_in(schema_of(part, section(part)), f"{each}.{part.name}", seen)
        elif isinstance(each, dict | list):
            named = at.endswith(".properties") or not isinstance(key, int)
            yield from paths_in(each, f"{at}.{key}" if named else at, seen)


def test_no_setting_of_a_job_is_a_path_but_that_which_each_site_says():
    found = {*paths_in(JobConfig.model_json_schema(), "job", set())}
    assert found == {"storages.disk.properties.folder.anyOf"}


def job_with(method):
    said = job_of(parse_config(configuration("nowhere")), "first").as_dict()
    return parse_section(JobConfig, said | {"method": method}, "job.yaml")


@pytest.mark.parametrize("key", kept_in(None))
def test_a_job_that_says_where_a_site_writes_is_refused(key):
    with pytest.raises(ConfigurationError, match=f"{key}: a job names no file or folder"):
        job_with(kept_in("/srv/elsewhere")[key])
    assert job_with(kept_in(None)[key]).task == "train"


@pytest.mark.parametrize("key", kept_in(None))
def test_each_site_keeps_surrogates_in_its_own_folder_of_the_run(tmp_path, key):
    _, job, sites = prepared(tmp_path, kept_in(tmp_path / "elsewhere")[key], epochs=1)
    assert "elsewhere" not in job.as_yaml()
    assert play(job, sites, Mesh()) == {}
    assert not (tmp_path / "elsewhere").exists()
    for site in sites.values():
        there = [*(site.runs / "first" / "surrogates").rglob("*")]
        tables = [path for path in there if path.name == "rows"]
        assert tables
        assert {path.stat().st_mode & 0o777 for path in there if path.is_file()} == {0o600}
        for table in tables:
            assert table.parent.stat().st_mode & 0o777 == 0o700
            assert table.parent.parent.stat().st_mode & 0o777 == 0o700


def test_a_run_of_ones_own_says_where_its_surrogates_are(tmp_path):
    config, _, _ = prepared(tmp_path, kept_in(None)["method.surrogates.folder"], epochs=1)
    with pytest.raises(ConfigurationError, match="surrogates on a disk need a folder"):
        config.train(tmp_path / "run")
    assert not (tmp_path / "run").exists()
