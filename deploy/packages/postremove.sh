#!/bin/sh
# After a removal or an upgrade.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
