"""`amends serve`, which waits half a second where it would wait half a minute."""

import sys

import amends.http.api
import amends.http.peers
from amends.__main__ import main

if __name__ == "__main__":
    vars(sys.modules["amends.http.api.operations"])["BODY_S"] = 0.5
    vars(amends.http.peers)["HEAD_S"] = 0.5
    main()
