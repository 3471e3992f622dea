"""Draw the data flow of every agent, with the numbers of its recipe: docs/images/agents/*.svg.

python scripts/documentation/data_flow.py
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_pages import ENV, build
from drawing import Arrow, Box, draw, elbow, straight

from tokenworlds.core.overrides import snake_case
from tokenworlds.core.protocols import Tokenizer
from tokenworlds.recipes.catalogue import load
from tokenworlds.runs.recipe import Recipe

ROOT = Path(__file__).resolve().parents[2]
TIMES = "\N{MULTIPLICATION SIGN}"
IMAGES = ROOT / "docs" / "images" / "agents"
TITLES = {
    "step-vq-m": "STEP-VQ",
    "drama": "DRAMA",
    "storm": "STORM",
    "git-storm": "GIT-STORM",
    "dreamer-v3": "DreamerV3",
    "iris": "IRIS",
    "delta-iris": "Δ-IRIS",
    "swm": "Smaller World Models",
    "ppo": "PPO",
}
NAMES = {
    "vq": "VQ",
    "attentive_vq": "VQ with attention",
    "bernoulli_vq": "VQ, Bernoulli pixels",
    "categorical": "categoricals",
    "delta": "Δ-tokenizer",
    "mamba2": "Mamba-2",
    "post_norm_transformer": "Transformer",
    "transformer": "Transformer",
    "token_transformer": "Transformer",
    "conv_lstm": "ConvLSTM",
    "factorised": "one linear layer",
    "maskgit": "MaskGIT",
    "mask_git": "MaskGIT",
}
"""Parts by the names that --set takes, and as a reader knows them."""
Picture = tuple[list[Box], list[Arrow]]


def configs(recipe: Recipe) -> tuple[Any, Any]:
    """The settings of world and behaviour, whose fields depend on their kind."""
    return recipe.world, recipe.behaviour


def part_name(config: Any) -> str:
    kind = snake_case(type(config).__qualname__.removesuffix(".Config"))
    return NAMES.get(kind, kind.replace("_", " "))


def frame_text(recipe: Recipe, frames: int = 1) -> str:
    side = f"{recipe.resolution}{TIMES}{recipe.resolution}"
    return f"{f'{frames} of ' if frames > 1 else ''}{side}, {'grey' if recipe.grey else 'RGB'}"


def token_text(recipe: Recipe) -> str:
    """How many tokens a frame has, of how many values."""
    tokenizer = build(recipe).get_submodule("world.tokenizer")
    assert isinstance(tokenizer, Tokenizer)
    if tokenizer.grid is None:
        return f"{tokenizer.tokens} of {tokenizer.vocabulary}"
    height, width = tokenizer.grid
    return f"{height}{TIMES}{width} of {tokenizer.vocabulary} codes"


def layers_text(config: Any) -> str:
    return f"{config.layers} layers of {config.width}"


def latent(recipe: Recipe) -> Picture:
    world, behaviour = configs(recipe)
    frame = Box(0, 1, "data", "frame xₜ", frame_text(recipe))
    encoder = Box(1, 1, "model", "tokenizer", part_name(world.tokenizer))
    tokens = Box(2, 1, "data", "tokens zₜ", token_text(recipe))
    decoder = Box(2, 0, "model", "decoder")
    picture = Box(1, 0, "data", "reconstruction")
    mixer = Box(3, 1, "model", "mixer", part_name(world.mixer))
    action = Box(3, 2, "data", "action aₜ")
    sequence = Box(4, 1, "model", part_name(world.sequence), layers_text(world.sequence))
    prior = Box(5, 0, "head", "prior of zₜ₊₁", part_name(world.prior))
    reward = Box(5, 1, "head", "reward")
    termination = Box(5, 2, "head", "termination")
    actor = Box(4, 2, "policy", "actor, critic", f"horizon {behaviour.horizon}")
    start, end = tokens.side("bottom"), actor.side("bottom")
    below = end[1] + 16
    arrows = [
        *(straight(a, b) for a, b in ((frame, encoder), (encoder, tokens), (tokens, mixer))),
        straight(mixer, sequence),
        straight(tokens, decoder),
        straight(decoder, picture),
        elbow(sequence, prior),
        straight(sequence, reward),
        elbow(sequence, termination),
        straight(sequence, actor, "h"),
        straight(actor, action),
        straight(action, mixer),
        Arrow((start, (start[0], below), (end[0], below), end), "z"),
    ]
    boxes = [frame, encoder, tokens, decoder, picture, mixer, action, sequence, prior, reward]
    return [*boxes, termination, actor], arrows


def iris(recipe: Recipe) -> Picture:
    world, behaviour = configs(recipe)
    frame = Box(0, 0, "data", "frame xₜ", frame_text(recipe))
    encoder = Box(1, 0, "model", "tokenizer", part_name(world.tokenizer))
    tokens = Box(2, 0, "data", "tokens zₜ", token_text(recipe))
    sequence = Box(3, 0, "model", "Transformer", layers_text(world.sequence))
    prior = Box(4, 0, "head", "next token", "one after the other")
    reward = Box(4, 1, "head", "reward")
    termination = Box(4, 2, "head", "termination")
    decoder = Box(2, 1, "model", "decoder")
    picture = Box(2, 2, "data", "decoded frame")
    actor = Box(3, 2, "policy", "CNN-LSTM", f"actor, critic; horizon {behaviour.horizon}")
    action = Box(3, 1, "data", "action aₜ")
    pairs = (
        *((frame, encoder), (encoder, tokens), (tokens, sequence), (sequence, prior)),
        *((tokens, decoder), (decoder, picture), (picture, actor), (actor, action)),
        (action, sequence),
    )
    arrows = [straight(a, b) for a, b in pairs]
    arrows += [elbow(sequence, reward), elbow(sequence, termination)]
    boxes = [frame, encoder, tokens, sequence, prior, reward, termination, decoder, picture]
    return [*boxes, actor, action], arrows


def delta_iris(recipe: Recipe) -> Picture:
    world, behaviour = configs(recipe)
    before = Box(0, 0, "data", "xₜ, aₜ", "frame and action")
    frame = Box(0, 1, "data", "frame xₜ₊₁", frame_text(recipe))
    encoder = Box(1, 1, "model", "Δ-encoder", "xₜ, aₜ and xₜ₊₁")
    tokens = Box(2, 1, "data", "Δ-tokens", token_text(recipe))
    image = Box(1, 0, "model", "CNN", "I-token of xₜ")
    sequence = Box(3, 0, "model", "Transformer", layers_text(world.sequence))
    prior = Box(4, 0, "head", "next Δ-token", "one after the other")
    reward = Box(4, 1, "head", "reward")
    termination = Box(4, 2, "head", "termination")
    decoder = Box(2, 2, "model", "decoder", "xₜ, aₜ and Δ-tokens")
    picture = Box(1, 2, "data", "decoded xₜ₊₁")
    actor = Box(0, 2, "policy", "CNN-LSTM", f"actor, critic; horizon {behaviour.horizon}")
    a, b = before.side("bottom", 30), encoder.side("left", -16)
    arrows = [
        straight(frame, encoder),
        Arrow((a, (a[0], b[1] - 28), (b[0] - 22, b[1] - 28), (b[0] - 22, b[1]), b)),
        straight(encoder, tokens),
        straight(before, image),
        straight(image, sequence),
        Arrow(
            (
                tokens.side("right"),
                (sequence.side("bottom")[0], tokens.side("right")[1]),
                sequence.side("bottom"),
            )
        ),
        straight(sequence, prior),
        elbow(sequence, reward),
        elbow(sequence, termination),
        straight(tokens, decoder),
        straight(decoder, picture),
        straight(picture, actor),
    ]
    boxes = [before, frame, encoder, tokens, image, sequence, prior, reward, termination]
    return [*boxes, decoder, picture, actor], arrows


def grid(recipe: Recipe) -> Picture:
    world, behaviour = configs(recipe)
    frame = Box(0, 0, "data", "frames", frame_text(recipe, world.frames))
    encoder = Box(1, 0, "model", "tokenizer", part_name(world.tokenizer))
    tokens = Box(2, 0, "data", "tokens zₜ", token_text(recipe))
    sequence = Box(3, 0, "model", "ConvLSTM", convlstm_text(world.sequence))
    prior = Box(4, 0, "head", "prior of zₜ₊₁", "each cell its own token")
    reward = Box(4, 1, "head", "reward", "sign: 3 classes")
    actor = Box(2, 1, "policy", "PPO", f"horizon {behaviour.horizon}")
    action = Box(3, 1, "data", "action aₜ", "broadcast over the map")
    pairs = (
        *((frame, encoder), (encoder, tokens), (tokens, sequence), (sequence, prior)),
        *((tokens, actor), (actor, action), (action, sequence)),
    )
    arrows = [*(straight(a, b) for a, b in pairs), elbow(sequence, reward)]
    return [frame, encoder, tokens, sequence, prior, reward, actor, action], arrows


def convlstm_text(config: Any) -> str:
    return f"{config.layers} cells of {config.channels}"


def rssm(recipe: Recipe) -> Picture:
    world, behaviour = configs(recipe)
    frame = Box(0, 0, "data", "frame xₜ", frame_text(recipe))
    encoder = Box(1, 0, "model", "encoder", "CNN")
    posterior = Box(2, 0, "model", "posterior")
    latents = Box(3, 0, "data", "zₜ", f"{world.latents} of {world.classes} classes")
    past = Box(1, 1, "data", "hₜ₋₁, zₜ₋₁, aₜ₋₁")
    memory = Box(2, 1, "model", "block GRU", f"hₜ of {world.deter}")
    prior = Box(2, 2, "head", "prior of zₜ")
    decoder = Box(4, 0, "model", "decoder")
    reward = Box(4, 1, "head", "reward")
    termination = Box(4, 2, "head", "termination")
    actor = Box(3, 2, "policy", "actor, critic", f"horizon {behaviour.horizon}")
    state = Box(3, 1, "data", "state (hₜ, zₜ)")
    pairs = (
        *((frame, encoder), (encoder, posterior), (posterior, latents), (past, memory)),
        *((memory, posterior), (memory, prior), (memory, state), (latents, state)),
        *((state, reward), (state, actor)),
    )
    arrows = [*(straight(a, b) for a, b in pairs), elbow(state, decoder), elbow(state, termination)]
    boxes = [frame, encoder, posterior, latents, past, memory, prior, decoder, reward, termination]
    return [*boxes, actor, state], arrows


def real(recipe: Recipe) -> Picture:
    world, behaviour = configs(recipe)
    frame = Box(0, 0, "data", "frames", frame_text(recipe, world.frames))
    network = Box(1, 0, "policy", "CNN", f"{behaviour.network.width} units")
    actor = Box(2, 0, "policy", "policy", "action aₜ")
    critic = Box(2, 1, "policy", "value")
    env = Box(3, 0, "data", "environment", f"{recipe.num_envs} at once")
    update = Box(3, 1, "model", "PPO update", f"{behaviour.epochs} epochs of a rollout")
    arrows = [
        *(straight(a, b) for a, b in ((frame, network), (network, actor), (actor, env))),
        elbow(network, critic),
        straight(critic, update),
        straight(env, update, "rewards"),
    ]
    return [frame, network, actor, critic, env, update], arrows


LAYOUTS: Mapping[str, Callable[[Recipe], Picture]] = {
    "Latent": latent,
    "Iris": iris,
    "DeltaIris": delta_iris,
    "Grid": grid,
    "RSSM": rssm,
    "Real": real,
}


def pictures() -> dict[Path, str]:
    """The text of every picture, with the numbers of size `paper` on Atari."""
    found = {}
    for name, title in TITLES.items():
        recipe = load(name, "paper", ENV).recipe
        kind = type(recipe.world).__qualname__.partition(".")[0]
        found[IMAGES / f"{name}.svg"] = draw(f"Data flow of {title}", *LAYOUTS[kind](recipe))
    return found


if __name__ == "__main__":
    IMAGES.mkdir(parents=True, exist_ok=True)
    for path, text in pictures().items():
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
