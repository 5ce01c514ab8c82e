"""The servers that judges are asked at: keys, requests, limits, refusals and prices."""
