package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordsvc/coordsvc/kafkawire"
)

// What messages are compared with.
const (
	ofKmsg    = "kmsg"
	ofUnsafe  = "kmsg unsafe" // whose strings are parts of the frame, and hold as long as it does
	ofSarama  = "sarama"
	ofKafkaGo = "kafka-go"
	ofUs      = "kafkawire"
)

// codecCase is one message in one version: how each library does it. A library that
// does not know the version is missing.
type codecCase struct {
	what   string
	does   map[string]func() error
	target *target // of ns, against kmsg
	allocs *target // absolute
}

const (
	nanoseconds = "ns of CPU" // with what the garbage collector then needs, and without what a neighbour takes
	bytesEach   = "bytes"
	allocations = "allocations"
)

// codec is row 1: bodies, encoded by a client and decoded by it.
func (b *bench) codec() error {
	testing.Init()
	benchtime := b.duration / 15
	if b.smoke {
		benchtime = time.Millisecond
	}
	if err := flag.Set("test.benchtime", benchtime.String()); err != nil {
		return err
	}
	cases, err := codecCases()
	if err != nil {
		return err
	}
	add := b.report.section("1", "Codec: what a client encodes and decodes")
	for _, c := range cases {
		b.progress("codec: %s", c.what)
		found, err := b.codecRounds(&c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		ours := found[ofUs]
		for _, other := range []string{ofKmsg, ofUnsafe, ofSarama, ofKafkaGo} {
			theirs, ok := found[other]
			if !ok {
				continue
			}
			add(row{what: c.what + ", " + nanoseconds, ours: ours[nanoseconds], oursMore: allocated(ours), name: other, theirs: theirs[nanoseconds], theirsMore: allocated(theirs),
				target: onlyFor(other == ofKmsg, c.target), limits: "the memory of the rows themselves, which either has to fill",
				change: "rows that refer to the frame instead of having their own fields"})
		}
		if c.allocs != nil {
			add(row{what: c.what + ", allocations", ours: ours[allocations], name: ofKmsg, theirs: found[ofKmsg][allocations], target: c.allocs})
		}
	}
	return nil
}

// allocated says what one operation takes from the heap.
func allocated(found map[figure]series) string {
	return fmt.Sprintf("; %s B in %s allocations", number(found[bytesEach].median()), number(found[allocations].median()))
}

func (b *bench) codecRounds(c *codecCase) (map[string]map[figure]series, error) {
	names := slices.DeleteFunc([]string{ofUs, ofKmsg, ofUnsafe, ofSarama, ofKafkaGo}, func(name string) bool { return c.does[name] == nil })
	return takeTurns(b.rounds, names, func(name string) (figures, error) {
		var failed error
		var used time.Duration
		r := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			used, failed = cpuTimeOf(func() error {
				for b.Loop() {
					if err := c.does[name](); err != nil {
						return err
					}
				}
				return nil
			})
			if failed != nil {
				b.FailNow()
			}
		})
		if failed != nil {
			return nil, fmt.Errorf("%s: %w", name, failed)
		}
		return figures{
			nanoseconds: float64(used) / float64(r.N),
			bytesEach:   float64(r.AllocedBytesPerOp()),
			allocations: float64(r.AllocsPerOp()),
		}, nil
	})
}

// cpuTimeOf is the CPU time that this process uses while do runs.
func cpuTimeOf(do func() error) (time.Duration, error) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := cpuTime(os.Getpid())
	return after - before, err
}

func codecCases() ([]codecCase, error) {
	var cases []codecCase
	var failed error
	add := func(c codecCase, err error) {
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", c.what, err)
		}
		cases = append(cases, c)
	}
	for v := range kafkawire.Supported(kafkawire.APIKeyFindCoordinator).Max + 1 {
		add(encodeFind(v, 1))
		if v >= 4 {
			add(encodeFind(v, 500))
		}
		add(decodeFind(v, 1, false))
	}
	add(decodeFind(6, 500, false))
	add(decodeFind(6, 10_000, false))
	add(decodeFind(6, 10_000, true))
	for v := range kafkawire.Supported(kafkawire.APIKeyAPIVersions).Max + 1 {
		add(encodeAPIVersions(v))
		add(decodeAPIVersions(v))
	}
	return cases, failed
}

// codecKeys are group ids, and the answers to them.
func codecKeys(n int) *keyset {
	k, _ := newKeyset(n, fixedOracle{}) // which has no error
	return k
}

type fixedOracle struct{}

func (fixedOracle) coordinators(keys []string) ([]coordinator, error) {
	list := make([]coordinator, len(keys))
	for i := range list {
		node := int32(i%3) + 1
		list[i] = coordinator{node, fmt.Sprintf("kafka-%d.kafka.svc.cluster.local", node), 9092}
	}
	return list, nil
}

// encodes makes a case in which every library must give the same bytes.
func encodes(what string, ours func(dst []byte) ([]byte, error), others map[string]func(dst []byte) ([]byte, error)) (codecCase, error) {
	buffer := make([]byte, 0, 1<<20)
	want, err := ours(nil)
	c := codecCase{what: what, does: map[string]func() error{}}
	others[ofUs] = ours
	for name, encode := range others {
		c.does[name] = func() error {
			got, err := encode(buffer[:0])
			if err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("wrong bytes: %x, want %x", got, want)
			}
			return nil
		}
	}
	return c, err
}

func encodeFind(v kafkawire.Version, n int) (codecCase, error) {
	k := codecKeys(n)
	what := fmt.Sprintf("FindCoordinator v%d, encode %s", v, plural(n, "key"))
	ours := &kafkawire.FindCoordinatorRequest{Keys: k.keys}
	theirs := kmsg.NewPtrFindCoordinatorRequest()
	theirs.Version, theirs.CoordinatorKey, theirs.CoordinatorKeys = int16(v), k.keys[0], k.keys
	others := map[string]func([]byte) ([]byte, error){
		ofKmsg: func(dst []byte) ([]byte, error) { return theirs.AppendTo(dst), nil },
	}
	if v <= 3 {
		encode := saramaEncoder(&sarama.FindCoordinatorRequest{Version: int16(v), CoordinatorKey: k.keys[0]})
		others[ofSarama] = func([]byte) ([]byte, error) { return encode() }
	}
	if v <= 2 {
		m := &findcoordinator.Request{Key: k.keys[0]}
		others[ofKafkaGo] = func([]byte) ([]byte, error) { return protocol.Marshal(int16(v), *m) }
	}
	return encodes(what, func(dst []byte) ([]byte, error) { return ours.Encode(dst, v) }, others)
}

// decodeFind has the answer decoded as the Finder does it, which knows what it asked.
func decodeFind(v kafkawire.Version, n int, fresh bool) (codecCase, error) {
	k := codecKeys(n)
	answer := &kafkawire.FindCoordinatorResponse{}
	for i, c := range k.want {
		answer.Coordinators = append(answer.Coordinators, kafkawire.Coordinator{Key: k.keys[i], NodeID: c.node, Host: c.host, Port: c.port})
	}
	body, err := answer.Encode(nil, v)
	c := codecCase{what: fmt.Sprintf("FindCoordinator v%d, decode %s", v, plural(n, "row")), does: map[string]func() error{}}
	if n == 10_000 {
		c.what += " into the same message again"
		c.target, c.allocs = atLeastTimesFaster(5), &target{limit: 8, most: true, absolute: true}
		if fresh {
			c.what = fmt.Sprintf("FindCoordinator v%d, decode %s into a new message each time", v, plural(n, "row"))
			c.target = nil
		}
	}
	last := n - 1 // to look at all rows each time would cost more than to decode them
	check := func(rows int, node int32, host string) error {
		if rows != n || node != k.want[last].node || host != k.want[last].host {
			return fmt.Errorf("wrong answer: %d rows, the last names node %d at %q", rows, node, host)
		}
		return nil
	}
	ours, hosts := new(kafkawire.FindCoordinatorResponse), new(kafkawire.Hosts)
	c.does[ofUs] = func() error {
		if fresh {
			ours = new(kafkawire.FindCoordinatorResponse)
		}
		if err := ours.DecodeSharing(body, v, k.keys, hosts); err != nil {
			return err
		}
		r := &ours.Coordinators[len(ours.Coordinators)-1]
		return check(len(ours.Coordinators), r.NodeID, r.Host)
	}
	kmsgs := func(read func(*kmsg.FindCoordinatorResponse) error) func() error {
		m := kmsg.NewPtrFindCoordinatorResponse()
		return func() error {
			if fresh {
				m = kmsg.NewPtrFindCoordinatorResponse()
			}
			m.Version = int16(v)
			if err := read(m); err != nil {
				return err
			}
			if v < 4 {
				return check(1, m.NodeID, m.Host)
			}
			r := &m.Coordinators[len(m.Coordinators)-1]
			return check(len(m.Coordinators), r.NodeID, r.Host)
		}
	}
	c.does[ofKmsg] = kmsgs(func(m *kmsg.FindCoordinatorResponse) error { return m.ReadFrom(body) })
	c.does[ofUnsafe] = kmsgs(func(m *kmsg.FindCoordinatorResponse) error { return m.UnsafeReadFrom(body) })
	if v <= 3 {
		m := new(sarama.FindCoordinatorResponse)
		decode := saramaDecoder(m)
		want := fmt.Sprintf("%s:%d", k.want[0].host, k.want[0].port)
		c.does[ofSarama] = func() error {
			if err := decode(body, int16(v)); err != nil {
				return err
			}
			if m.Coordinator.Addr() != want {
				return fmt.Errorf("wrong answer: %s", m.Coordinator.Addr())
			}
			return nil
		}
	}
	if v <= 2 {
		m := new(findcoordinator.Response)
		c.does[ofKafkaGo] = func() error {
			if err := protocol.Unmarshal(body, int16(v), m); err != nil {
				return err
			}
			return check(1, m.NodeID, m.Host)
		}
	}
	if err == nil {
		err = errors.Join(c.does[ofUs](), checkRows(k, ours.Coordinators))
	}
	return c, err
}

// checkRows looks at every row once, before the clock runs.
func checkRows(k *keyset, rows []kafkawire.Coordinator) error {
	if err := k.checkLen(len(rows)); err != nil {
		return err
	}
	for i := range rows {
		if err := k.check(i, rows[i].Key, coordinator{rows[i].NodeID, rows[i].Host, rows[i].Port}); err != nil {
			return err
		}
	}
	return nil
}

// atLeastTimesFaster is said of a time, of which less is better.
func atLeastTimesFaster(n float64) *target { return atMost(1 / n) }

func plural(n int, of string) string {
	if n == 1 {
		return "one " + of
	}
	return number(float64(n)) + " " + of + "s"
}

const softwareName, softwareVersion = "coordsvc", "1.0"

func encodeAPIVersions(v kafkawire.Version) (codecCase, error) {
	ours := &kafkawire.APIVersionsRequest{ClientSoftwareName: softwareName, ClientSoftwareVersion: softwareVersion, NodeID: -1}
	others := map[string]func([]byte) ([]byte, error){}
	theirs := kmsg.NewPtrApiVersionsRequest()
	if int16(v) <= theirs.MaxVersion() {
		theirs.Version, theirs.ClientSoftwareName, theirs.ClientSoftwareVersion = int16(v), softwareName, softwareVersion
		others[ofKmsg] = func(dst []byte) ([]byte, error) { return theirs.AppendTo(dst), nil }
	}
	if v <= 4 {
		encode := saramaEncoder(&sarama.ApiVersionsRequest{Version: int16(v), ClientSoftwareName: softwareName, ClientSoftwareVersion: softwareVersion})
		others[ofSarama] = func([]byte) ([]byte, error) { return encode() }
	}
	if v <= 2 {
		m := new(apiversions.Request)
		others[ofKafkaGo] = func([]byte) ([]byte, error) { return protocol.Marshal(int16(v), *m) }
	}
	return encodes(fmt.Sprintf("ApiVersions v%d, encode", v), func(dst []byte) ([]byte, error) { return ours.Encode(dst, v) }, others)
}

// apisOfABroker is how many APIs Kafka 4 lists.
const apisOfABroker = 60

func decodeAPIVersions(v kafkawire.Version) (codecCase, error) {
	answer := new(kafkawire.APIVersionsResponse)
	for i := range apisOfABroker {
		answer.APIs = append(answer.APIs, kafkawire.APIVersionRange{Key: kafkawire.APIKey(i), Max: kafkawire.Version(i)})
	}
	body, err := answer.Encode(nil, v)
	c := codecCase{what: fmt.Sprintf("ApiVersions v%d, decode %d APIs", v, apisOfABroker), does: map[string]func() error{}}
	check := func(n int, last int16) error {
		if n != apisOfABroker || last != apisOfABroker-1 {
			return fmt.Errorf("wrong answer: %d APIs, the last up to v%d", n, last)
		}
		return nil
	}
	ours := new(kafkawire.APIVersionsResponse)
	c.does[ofUs] = func() error {
		if err := ours.Decode(body, v); err != nil {
			return err
		}
		return check(len(ours.APIs), int16(ours.APIs[len(ours.APIs)-1].Max))
	}
	theirs := kmsg.NewPtrApiVersionsResponse()
	if int16(v) <= theirs.MaxVersion() {
		c.does[ofKmsg] = func() error {
			theirs.Version = int16(v)
			if err := theirs.ReadFrom(body); err != nil {
				return err
			}
			return check(len(theirs.ApiKeys), theirs.ApiKeys[len(theirs.ApiKeys)-1].MaxVersion)
		}
	}
	if v <= 4 {
		m := new(sarama.ApiVersionsResponse)
		decode := saramaDecoder(m)
		c.does[ofSarama] = func() error {
			if err := decode(body, int16(v)); err != nil {
				return err
			}
			return check(len(m.ApiKeys), m.ApiKeys[len(m.ApiKeys)-1].MaxVersion)
		}
	}
	if v <= 2 {
		m := new(apiversions.Response)
		c.does[ofKafkaGo] = func() error {
			if err := protocol.Unmarshal(body, int16(v), m); err != nil {
				return err
			}
			return check(len(m.ApiKeys), m.ApiKeys[len(m.ApiKeys)-1].MaxVersion)
		}
	}
	return c, err
}
