"""`amends serve`, which waits half a second where it would wait half a minute."""

from importlib import import_module

from amends.__main__ import main

if __name__ == "__main__":
    vars(import_module("amends.http.api.operations"))["BODY_S"] = 0.5
    vars(import_module("amends.http.peers"))["HEAD_S"] = 0.5
    main()
