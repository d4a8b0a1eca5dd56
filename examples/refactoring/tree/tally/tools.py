"""Everything in one place, as it grew."""

from decimal import Decimal, InvalidOperation


def parse_line(line):
    """A line's day, category, amount in cents and note."""
    day, category, amount, *note = line.split()
    return day, category, cents(amount), " ".join(note)


def parse(text):
    """Every line that is not empty and no comment."""
    return [parse_line(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def cents(amount):
    """An amount in cents; ValueError if it is none."""
    try:
        return int(Decimal(amount) * 100)
    except InvalidOperation:
        raise ValueError(f"{amount!r} is not an amount") from None


def spelled(amount):
    """Cents as a person writes them."""
    return f"{amount // 100}.{amount % 100:02}"


def by_category(entries):
    """What was spent on each category."""
    totals = {}
    for _, category, amount, _ in entries:
        totals[category] = totals.get(category, 0) + amount
    return totals


def report(text):
    """One line for each category, the largest first, and a total."""
    totals = by_category(parse(text))
    lines = [f"{name:<10}{spelled(amount):>10}" for name, amount in sorted(totals.items(), key=lambda item: -item[1])]
    return "\n".join([*lines, f"{'total':<10}{spelled(sum(totals.values())):>10}"])
