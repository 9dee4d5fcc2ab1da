#!/bin/sh
# After an installation or an upgrade, by dpkg and by rpm. The service is not started
# the first time: it does not know the brokers yet. Where it runs it goes on with the new
# program.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart coordsvc.service || echo "coordsvc did not start again: see journalctl -u coordsvc" >&2
fi
