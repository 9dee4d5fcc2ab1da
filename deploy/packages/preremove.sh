#!/bin/sh
# Before a removal: dpkg says remove, rpm says 0. Before an upgrade there is nothing to do.
set -e
case "$1" in
remove | 0)
  if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    systemctl disable --now coordsvc.service
  fi
  ;;
esac
