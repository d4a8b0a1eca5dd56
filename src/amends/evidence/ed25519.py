"""Ed25519 (RFC 8032) in plain Python, verifying only. Slow and simple: nothing secret goes through it.

amends itself verifies with a library; this is for the verifier that stands alone.
"""

from __future__ import annotations

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
LENGTH = 64
Point = tuple[int, int, int, int]


def add(a: Point, b: Point) -> Point:
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, g, h, f = f - e, h + g, f + e, h - g
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    while scalar:
        total = add(total, point) if scalar & 1 else total
        point, scalar = add(point, point), scalar >> 1
    return total


def decompressed(raw: bytes) -> Point | None:
    number = int.from_bytes(raw, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    squared = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(squared, (P + 3) // 8, P)
    if (x * x - squared) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - squared) % P or (not x and sign):
        return None
    x = x if x & 1 == sign else P - x
    return x, y % P, 1, x * y % P


def compressed(point: Point) -> bytes:
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = decompressed(bytes.fromhex("58" + "66" * 31)) or (0, 1, 1, 0)


def is_signature(public: bytes, signature: bytes, message: bytes) -> bool:
    point = decompressed(public)
    scalar = int.from_bytes(signature[32:], "little")
    if point is None or len(signature) != LENGTH or scalar >= L:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    minus = (P - point[0], point[1], 1, P - point[3])
    return compressed(add(times(scalar, BASE), times(challenge, minus))) == signature[:32]
