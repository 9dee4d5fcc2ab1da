package reload

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is made of two files that must hold the same.
type pair struct{ text string }

func parsePair(contents [][]byte) (*pair, error) {
	if !bytes.Equal(contents[0], contents[1]) {
		return nil, errors.New("the two differ")
	}
	return &pair{string(contents[0])}, nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func loadPair(t *testing.T) (v *Value[pair], a, b string) {
	t.Helper()
	dir := t.TempDir()
	a, b = filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "one")
	write(t, b, "one")
	v, err := Load([]File{{"x.a-file", a}, {"x.b-file", b}}, parsePair)
	require.NoError(t, err)
	return v, a, b
}

func TestCheckFollowsTheFiles(t *testing.T) {
	v, a, b := loadPair(t)
	require.Equal(t, "one", v.Get().text)
	unchanged := func() {
		t.Helper()
		changed, err := v.Check()
		require.False(t, changed)
		require.NoError(t, err)
	}
	unchanged()

	write(t, a, "two") // half of a change
	changed, err := v.Check()
	require.True(t, changed)
	require.EqualError(t, err, "the two differ")
	require.Equal(t, "one", v.Get().text)
	unchanged() // said once
	require.Error(t, v.Status().Err, "but it still stands")

	write(t, b, "two") // the other half
	changed, err = v.Check()
	require.True(t, changed)
	require.NoError(t, err)
	require.Equal(t, "two", v.Get().text)
	require.NoError(t, v.Status().Err)

	require.NoError(t, os.Remove(b))
	changed, err = v.Check()
	require.True(t, changed)
	var fileError *Error
	require.ErrorAs(t, err, &fileError)
	require.Equal(t, "x.b-file: "+b+": cannot be read: no such file or directory", err.Error())
	require.Equal(t, "two", v.Get().text)
	unchanged()

	write(t, b, "two") // back to what is in use
	inUse := v.Get()
	changed, err = v.Check()
	require.True(t, changed)
	require.NoError(t, err)
	require.NoError(t, v.Status().Err)
	require.Same(t, inUse, v.Get())
}

// swap replaces the folder that ..data points to, as the kubelet does.
func swap(t *testing.T, dir, version, text string) {
	t.Helper()
	require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
	write(t, filepath.Join(dir, version, "a"), text)
	write(t, filepath.Join(dir, version, "b"), text)
	next := filepath.Join(dir, "..data_tmp")
	require.NoError(t, os.Symlink(version, next))
	require.NoError(t, os.Rename(next, filepath.Join(dir, "..data")))
}

func TestKubernetesSymlinkSwap(t *testing.T) {
	dir := t.TempDir()
	swap(t, dir, "..v1", "one")
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	v, err := Load([]File{{"x.a-file", filepath.Join(dir, "a")}, {"x.b-file", filepath.Join(dir, "b")}}, parsePair)
	require.NoError(t, err)
	for i, text := range []string{"two", "three"} { // the second is the one that watches miss
		swap(t, dir, "..v"+text, text)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, []string{"..v1", "..vtwo"}[i])))
		changed, err := v.Check()
		require.NoError(t, err)
		require.True(t, changed)
		require.Equal(t, text, v.Get().text)
	}
}

// A reading that fell between the two writes is read again before it is called wrong.
func TestReadInTheMiddleOfAChange(t *testing.T) {
	v, a, b := loadPair(t)
	v.parse = func(contents [][]byte) (*pair, error) {
		made, err := parsePair(contents)
		if err != nil {
			write(t, b, "two") // the writer is done by now
		}
		return made, err
	}
	write(t, a, "two")
	changed, err := v.Check()
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "two", v.Get().text)
}

func TestLoadNamesSettingAndFile(t *testing.T) {
	dir := t.TempDir()
	pipe, large := filepath.Join(dir, "pipe"), filepath.Join(dir, "large")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	write(t, large, strings.Repeat("x", maxFileSize+1))
	for path, says := range map[string]string{
		filepath.Join(dir, "missing"): "no such file",
		dir:                           "is not a file",
		pipe:                          "is not a file",
		large:                         "is larger than 1 MiB",
	} {
		_, err := Load([]File{{"x.a-file", path}}, func([][]byte) (*pair, error) { return &pair{}, nil })
		require.ErrorContains(t, err, "x.a-file: "+path+": ")
		require.ErrorContains(t, err, says)
	}
}

func TestReadableByAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	write(t, path, "x")
	require.False(t, ReadableByAll(path))
	require.NoError(t, os.Chmod(path, 0o644))
	require.True(t, ReadableByAll(path))
}

func TestWatchSaysEachThingOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, a, b := loadPair(t)
		log := &lockedBuffer{}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Watch(ctx, Interval, slog.New(slog.NewTextHandler(log, nil)), v)
		}()
		write(t, a, "two")
		time.Sleep(Interval - 1)
		synctest.Wait()
		require.Empty(t, log.String())
		time.Sleep(5 * Interval)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
		require.Contains(t, log.String(), "the two differ")
		write(t, b, "two")
		time.Sleep(2 * Interval)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "level=INFO"), log.String())
		require.Equal(t, "two", v.Get().text)
		stop()
		<-done
	})
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
