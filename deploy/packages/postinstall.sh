#!/bin/sh
# After an installation or an upgrade, by dpkg and by rpm. The service is not started
# the first time: it does not know the brokers yet. Where it runs it goes on with the new
# program. With DPKG_ROOT it is installed into a folder, and this machine's service is
# another one.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart coordsvc.service || echo "coordsvc did not start again: see journalctl -u coordsvc" >&2
fi
