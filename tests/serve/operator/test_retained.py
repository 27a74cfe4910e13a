"""Objects that outlive their resource: no owner reference takes them along, and a successor finds them."""

from tests.serve.operator.simulated import World
from tests.serve.operator.widgets import widget


def test_a_retained_object_outlives_its_resource_and_belongs_to_the_next_one() -> None:
    world = World()
    world.create(widget("a", configs=2, text="hello", retain=True))
    world.settle()
    kept = world.api.all("configmaps")
    assert set(kept) == {"a-0", "a-1"}
    assert not [each for each in kept.values() if each["metadata"].get("ownerReferences")]
    world.delete("widgets", "a")
    world.settle()
    assert world.api.all("widgets") == {}
    assert world.api.all("configmaps") == kept, "as they were"

    world.create(widget("a", configs=1, text="again", retain=True))
    world.settle()
    (a,) = world.api.all("widgets").values()
    left = world.api.all("configmaps")
    assert a["status"]["made"] == 1
    assert {name: each["data"] for name, each in left.items()} == {"a-0": {"text": "again"}}
    assert left["a-0"]["metadata"]["uid"] == kept["a-0"]["metadata"]["uid"]


def test_a_retained_object_that_somebody_changes_is_made_right_again() -> None:
    world = World()
    world.create(widget("a", configs=1, text="hello", retain=True))
    world.settle()
    world.edit("configmaps", "a-0", {"data": {"text": "other"}})
    world.settle()
    assert world.api.all("configmaps")["a-0"]["data"] == {"text": "hello"}


def test_what_is_retained_for_one_resource_is_none_of_another() -> None:
    world = World()
    world.create(widget("a", configs=1, text="a", retain=True))
    world.create(widget("ab", configs=1, text="ab", retain=True))
    world.settle()
    world.edit("widgets", "a", {"spec": {"configs": 0}})
    world.settle()
    assert set(world.api.all("configmaps")) == {"ab-0"}
