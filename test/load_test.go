package test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// load are callers that ask without an end, until stop.
type load struct {
	cancel  context.CancelFunc
	callers sync.WaitGroup
}

// startLoad begins callers that call ask again and again, with a pause between.
// It is stopped at the end of the test, if not before.
func startLoad(t *testing.T, callers int, pause time.Duration, ask func(ctx context.Context, caller int)) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	for caller := range callers {
		l.callers.Go(func() {
			for ctx.Err() == nil {
				// A call under way at stop is brought to its end.
				ask(context.WithoutCancel(ctx), caller)
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	l.cancel()
	l.callers.Wait()
}

// inSync says whether every partition of the groups' internal topic has so many
// replicas in sync: an operator waits for this before the next broker is stopped.
func inSync(addr string, replicas int) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	const version = 5 // every release from 1.0 on answers it
	frame, err := kafkawire.AppendRequest(nil, kafkawire.RequestHeader{Version: version, CorrelationID: 1, ClientID: "test"},
		&kafkawire.MetadataRequest{Topics: []string{"__consumer_offsets"}})
	if err != nil {
		return err
	}
	if _, err := conn.Write(frame); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	_, body, err := kafkawire.DecodeResponseHeader(answer, kafkawire.APIKeyMetadata, version)
	if err != nil {
		return err
	}
	var m kafkawire.MetadataResponse
	if err := m.Decode(body, version); err != nil {
		return err
	}
	if len(m.Brokers) != replicas || len(m.Topics) != 1 || len(m.Topics[0].Partitions) == 0 {
		return fmt.Errorf("%d brokers, %d topics", len(m.Brokers), len(m.Topics))
	}
	var errs []error
	for _, p := range m.Topics[0].Partitions {
		if len(p.ISR) != replicas {
			errs = append(errs, fmt.Errorf("partition %d has %d in sync", p.Partition, len(p.ISR)))
		}
	}
	return errors.Join(errs...)
}

// failures keeps the first few things that went wrong under load, and counts the rest.
type failures struct {
	mu    sync.Mutex
	count int
	first []string
}

func (f *failures) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if len(f.first) < 10 {
		f.first = append(f.first, fmt.Sprintf("%s: %s", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...)))
	}
}

func (f *failures) report(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count > 0 {
		t.Errorf("%d failures under load, among them:", f.count)
		for _, s := range f.first {
			t.Error(s)
		}
	}
}
