"""A user's own environment, given again when a run is opened."""

from dataclasses import replace

from tokenworlds.envs.catalogue import EnvSpec, canonical, module_of
from tokenworlds.envs.own import named_env
from tokenworlds.runs.own_code import Trust


def trusting(trust: Trust, env: object, stored: EnvSpec | None) -> Trust:
    """With the environment of the user, which a run may then import.

    An object takes the name that the run stored for the one it was trained on, unless that name
    can be imported.
    """
    if isinstance(env, str):
        return replace(trust, env=env and canonical(env))
    own = "" if stored is None or module_of(stored.name) is not None else stored.name
    return replace(trust, env=canonical(named_env(env, own)))
