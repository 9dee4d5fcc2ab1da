// Package memlimit tells Go's garbage collector how much memory the container may
// use, so that it collects more before the kernel kills the process.
//
// An explicit GOMEMLIMIT is left alone. Control groups of both versions are read:
// memory.max of version 2, memory.limit_in_bytes of version 1, the least of the
// process's own group and those above it.
package memlimit

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// share is what the heap may have. The rest is for what Go does not count: stacks
// of the kernel, sockets' buffers, the program's text.
const share = 0.9

// Set sets the limit to nine tenths of the container's and returns it; 0 where
// GOMEMLIMIT is set or the container has no limit.
func Set() int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		return 0
	}
	limit := containerLimit(os.DirFS("/"))
	if limit == 0 {
		return 0
	}
	limit = int64(float64(limit) * share)
	debug.SetMemoryLimit(limit)
	return limit
}

// containerLimit is the limit in bytes, 0 if there is none.
func containerLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) { // id:controllers:/path, cgroups(7)
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			least = min(least, leastOf(root, "sys/fs/cgroup", parts[2], "memory.max"))
		case parts[1] == "memory":
			least = min(least, leastOf(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"))
		}
	}
	// Version 1 writes "no limit" as a number near the largest, rounded to a page.
	if least >= math.MaxInt64>>1 {
		return 0
	}
	return least
}

// leastOf is the least limit in the files called name, from the group up to mount.
// In a container the group's path may be that of the host, which is not there: the
// mount itself is the container's group then.
func leastOf(root fs.FS, mount, group, name string) int64 {
	least := int64(math.MaxInt64)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		text, err := fs.ReadFile(root, path.Join(mount, group, name))
		if n, parseErr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && parseErr == nil && n > 0 {
			least = min(least, n)
		}
		if group == "/" {
			return least
		}
	}
}
