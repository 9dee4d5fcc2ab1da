package memlimit

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestContainerLimit(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no Linux":                    {nil, 0},
		"version 2, container":        {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"version 2, no limit":         {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		"version 2, a group above":    {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000\n"}, 1000},
		"version 2, the least":        {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "2000\n", "sys/fs/cgroup/a/memory.max": "3000\n"}, 2000},
		"version 2, path of the host": {map[string]string{"proc/self/cgroup": "0::/kubepods/pod1\n", "sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		"version 1":                   {map[string]string{"proc/self/cgroup": "12:cpu,cpuacct:/x\n5:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "123456\n"}, 123456},
		"version 1, no limit":         {map[string]string{"proc/self/cgroup": "5:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"nonsense":                    {map[string]string{"proc/self/cgroup": "::\nx\n0::../..\n", "sys/fs/cgroup/memory.max": "-5"}, 0},
		"empty":                       {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": ""}, 0},
	} {
		files := fstest.MapFS{}
		for path, text := range c.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		require.Equal(t, c.want, containerLimit(files), name)
	}
}

func TestSetLeavesAnExplicitLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Setenv("GOMEMLIMIT", "123MiB")
	require.Zero(t, Set())
	require.Equal(t, before, debug.SetMemoryLimit(-1))
}

func TestSet(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	if limit := Set(); limit > 0 {
		require.Equal(t, limit, debug.SetMemoryLimit(-1))
	} else {
		require.Equal(t, int64(math.MaxInt64), debug.SetMemoryLimit(-1), "no limit here, none set")
	}
}
