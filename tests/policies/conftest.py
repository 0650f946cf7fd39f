"""A provider to talk to."""

from collections.abc import Iterator

import pytest

from tests.policies.server import Address, Provider, serving


@pytest.fixture(scope="module")
def address() -> Iterator[Address]:
    with serving() as address:
        yield address


@pytest.fixture
def provider(address: Address) -> Provider:
    return address.connect(Provider())
