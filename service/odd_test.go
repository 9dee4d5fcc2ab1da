package service_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/kafkatest"
	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/pool"
	"github.com/coordsvc/coordsvc/service"
)

// grace is how much later than the caller's timeout a failure may be reported.
const grace = 250 * time.Millisecond

// setting is where odd brokers are tried, and with which limits.
type setting struct {
	network                *kafkatest.Network // nil: sockets
	dial, request, timeout time.Duration
	warm                   time.Duration // before the first call
	soon                   time.Duration // what an outcome may take that waits for nothing
}

// exact reports whether outcomes and times can be foretold. On sockets, and on a
// busy machine, any call may run into a timeout instead.
func (s *setting) exact() bool { return s.network != nil }

// simulation is for use in a bubble, where no time passes but by waiting.
func simulation() setting {
	return setting{network: kafkatest.NewNetwork(), dial: time.Second, request: 2 * time.Second, timeout: 5 * time.Second, warm: time.Second, soon: grace}
}

// sockets has timeouts short enough to go through the whole table.
func sockets() setting {
	return setting{dial: 300 * time.Millisecond, request: 400 * time.Millisecond, timeout: 1500 * time.Millisecond, warm: 50 * time.Millisecond}
}

// unforeseen is what a busy machine may add to a caller's timeout.
const unforeseen = 5 * time.Second

// oddRig is the whole service over an odd broker and some good ones.
type oddRig struct {
	setting

	odd     *kafkatest.Stub
	good    []*kafkatest.Stub
	cluster *pool.Cluster
	finder  *service.Finder
	service *service.CoordinatorService
}

func newOddRig(t testing.TB, s setting, broker *kafkatest.OddBroker, good int) *oddRig {
	t.Helper()
	r := &oddRig{setting: s}
	r.odd = kafkatest.NewStub(t, kafkatest.StubConfig{Network: s.network, Node: 1, Release: broker.Release})
	all := []*kafkatest.Stub{r.odd}
	for i := range good {
		r.good = append(r.good, kafkatest.NewStub(t, kafkatest.StubConfig{Network: s.network, Node: int32(i + 2)}))
	}
	all = append(all, r.good...)
	var brokers []kafkawire.MetadataBroker
	for _, stub := range all {
		brokers = append(brokers, stub.Broker())
	}
	for _, stub := range all {
		stub.SetBrokers(brokers...)
	}
	addrs := kafkatest.Addrs(all...)
	if broker.Script != nil {
		broker.Script(r.odd)
	}

	cfg := pool.DefaultConfig()
	cfg.Bootstrap = addrs
	cfg.DialTimeout, cfg.RequestTimeout = s.dial, s.request
	if s.network != nil {
		cfg.Dial = s.network.DialContext
	}
	var err error
	r.cluster, err = pool.NewCluster(cfg)
	if err != nil {
		t.Error(err)
	}
	r.finder = service.NewFinder(r.cluster, service.FinderConfig{RequestTimeout: s.request})
	r.service = service.NewCoordinatorService(r.finder, r.cluster, service.Limits{})
	r.cluster.Start()
	time.Sleep(s.warm)
	return r
}

func (r *oddRig) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(r.finder.Close(ctx), r.cluster.Close(ctx))
}

// ask makes one call and returns the outcome of each key.
func (r *oddRig) ask(keyType kafkawire.KeyType, keys []string) ([]kafkatest.Outcome, time.Duration, error) {
	begin := time.Now()
	resp, err := r.service.FindCoordinators(context.Background(), &coordsvcv1.FindCoordinatorsRequest{
		KeyType: coordsvcv1.KeyType(keyType) + 1, Keys: keys, Timeout: durationpb.New(r.timeout),
	})
	took := time.Since(begin)
	outcomes := make([]kafkatest.Outcome, len(keys))
	if err != nil {
		whole, err := outcomeOf(err)
		for i := range outcomes {
			outcomes[i] = whole
		}
		return outcomes, took, err
	}
	if _, err := proto.Marshal(resp); err != nil {
		return nil, took, fmt.Errorf("what the broker said cannot be passed on: %w", err)
	}
	for i, row := range resp.GetResults() {
		if e := row.GetError(); e != nil {
			outcomes[i] = kafkatest.Outcome{Reason: e.GetReason(), Code: kafkawire.ErrorCode(e.GetKafkaCode()), Retriable: e.GetRetriable()}
		} else if c := row.GetCoordinator(); c.GetHost() == "" || c.GetPort() == 0 {
			return nil, took, fmt.Errorf("key %q: success without an address: %v", row.GetKey(), c)
		}
	}
	return outcomes, took, nil
}

// outcomeOf reads the failure of a whole call.
func outcomeOf(err error) (kafkatest.Outcome, error) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			code, _ := strconv.Atoi(info.GetMetadata()["kafka_code"])
			return kafkatest.Outcome{Reason: info.GetReason(), Code: kafkawire.ErrorCode(code), Retriable: info.GetMetadata()["retriable"] == "true"}, nil
		}
	}
	return kafkatest.Outcome{}, fmt.Errorf("a status without ErrorInfo: %w", err)
}

// tryAlone asks the odd broker twice with no other there.
func tryAlone(t testing.TB, s setting, broker *kafkatest.OddBroker) error {
	begin := time.Now()
	r := newOddRig(t, s, broker, 0)
	var wrong []error
	for call := range 2 {
		if call > 0 {
			time.Sleep(s.pause(broker))
		}
		r.odd.Forget()
		dials := r.odd.Accepted()
		keys := broker.LookupKeys()
		got, took, err := r.ask(broker.KeyType, keys)
		wrong = append(wrong, err)
		for i := range got {
			if want := broker.Of(keys[i]); !s.fits(got[i], want) {
				wrong = append(wrong, fmt.Errorf("call %d, key %q: %+v, not %+v; %+v", call+1, keys[i], got[i], want, r.cluster.Brokers()[0].LastError))
			}
		}
		if limit := r.limit(broker); took > limit {
			wrong = append(wrong, fmt.Errorf("call %d took %s, more than %s", call+1, took, limit))
		}
		if !s.exact() {
			continue
		}
		if asked := r.odd.Count(kafkawire.APIKeyFindCoordinator); broker.Asked > 0 && asked > broker.Asked {
			wrong = append(wrong, fmt.Errorf("call %d took %d requests, more than %d", call+1, asked, broker.Asked))
		}
		if dials = r.odd.Accepted() - dials; broker.Dials > 0 && dials > broker.Dials {
			wrong = append(wrong, fmt.Errorf("call %d took %d connections, more than %d", call+1, dials, broker.Dials))
		}
	}
	if dials, most := r.odd.Accepted(), 20+8*int(time.Since(begin).Seconds()); s.exact() && dials > most {
		wrong = append(wrong, fmt.Errorf("a storm: %d dials, more than %d", dials, most))
	}
	return errors.Join(append(wrong, r.brokersCanBeListed(), r.close())...)
}

// fits reports whether an outcome is the one wanted, or one by which a busy machine
// may replace it: never a success that should not be.
func (s *setting) fits(got, want kafkatest.Outcome) bool {
	return got == want || !s.exact() && got.Retriable && got.Code == kafkawire.ErrNone
}

// pause is the time between two calls, as far as there is any.
func (s *setting) pause(broker *kafkatest.OddBroker) time.Duration {
	if s.exact() {
		return broker.Pause
	}
	return min(broker.Pause, 300*time.Millisecond)
}

func (r *oddRig) limit(broker *kafkatest.OddBroker) time.Duration {
	if !r.exact() {
		return r.timeout + unforeseen
	}
	for _, key := range broker.LookupKeys() {
		if broker.Of(key).Retriable {
			return r.timeout + grace
		}
	}
	if broker.Slow {
		return r.timeout
	}
	return r.soon
}

// tryBeside asks nine times with two good brokers there. Only what the odd broker
// says of a key itself may count; what it is must keep nobody from the others.
func tryBeside(t testing.TB, s setting, broker *kafkatest.OddBroker) error {
	r := newOddRig(t, s, broker, 2)
	var wrong []error
	var longest, total time.Duration
	failed := false
	for call := range 9 {
		keys := broker.LookupKeys()
		got, took, err := r.ask(broker.KeyType, keys)
		wrong = append(wrong, err)
		for i := range got {
			if got[i] == (kafkatest.Outcome{}) {
				continue
			}
			failed = true
			if want := broker.Of(keys[i]); s.exact() && (got[i] != want || !want.Final()) {
				wrong = append(wrong, fmt.Errorf("call %d, key %q: %+v although good brokers are there", call+1, keys[i], got[i]))
			}
		}
		longest, total = max(longest, took), total+took
	}
	if longest > r.timeout+unforeseen {
		wrong = append(wrong, fmt.Errorf("a call took %s", longest))
	}
	if s.exact() {
		wrong = append(wrong, r.avoided(longest, total, failed))
	}
	return errors.Join(append(wrong, r.brokersCanBeListed(), r.close())...)
}

// avoided checks that the odd broker cost the calls little and the good ones served.
func (r *oddRig) avoided(longest, total time.Duration, failed bool) error {
	var wrong []error
	if most := r.request + r.dial + grace; longest > most {
		wrong = append(wrong, fmt.Errorf("a call took %s, more than %s", longest, most))
	}
	if most := 2*r.request + r.dial; total > most {
		wrong = append(wrong, fmt.Errorf("all calls together took %s, more than %s: the odd broker is not avoided", total, most))
	}
	if failed && len(r.good[0].Lookups())+len(r.good[1].Lookups()) == 0 {
		wrong = append(wrong, errors.New("the good brokers were never asked"))
	}
	return errors.Join(wrong...)
}

// brokersCanBeListed checks that nothing a broker says spoils ListBrokers.
func (r *oddRig) brokersCanBeListed() error {
	resp, err := r.service.ListBrokers(context.Background(), &coordsvcv1.ListBrokersRequest{})
	if err != nil {
		return err
	}
	if _, err := proto.Marshal(resp); err != nil {
		return fmt.Errorf("brokers cannot be listed: %w", err)
	}
	return nil
}

func TestOddBrokerAlone(t *testing.T) { simulateOddBrokers(t, tryAlone) }

func TestOddBrokerBesideGoodOnes(t *testing.T) { simulateOddBrokers(t, tryBeside) }

func simulateOddBrokers(t *testing.T, try func(testing.TB, setting, *kafkatest.OddBroker) error) {
	for i, broker := range kafkatest.OddBrokers() {
		t.Run(broker.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.NoError(t, try(t, simulation(), &kafkatest.OddBrokers()[i]))
			})
		})
	}
}

func TestOddBrokersHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for _, b := range kafkatest.OddBrokers() {
		require.NotEmpty(t, b.Name)
		require.False(t, seen[b.Name], "two are called %q", b.Name)
		seen[b.Name] = true
	}
}

// The same on real sockets, many at a time, and then nothing may be left.
func TestOddBrokersOnSockets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	kafkatest.NewStub(t, kafkatest.StubConfig{}).Down() // from here on the runtime keeps a descriptor of its own
	before := descriptors(t)
	t.Run("all", func(t *testing.T) {
		const atOnce = 24
		turns := make(chan struct{}, atOnce)
		var wg sync.WaitGroup
		for i, broker := range kafkatest.OddBrokers() {
			if broker.Name == "refuses connections" {
				continue // its port may be the next stub's; TestOddBrokerAlone has it
			}
			for mode, try := range map[string]func(testing.TB, setting, *kafkatest.OddBroker) error{"alone": tryAlone, "beside": tryBeside} {
				wg.Go(func() {
					turns <- struct{}{}
					defer func() { <-turns }()
					if err := try(t, sockets(), &kafkatest.OddBrokers()[i]); err != nil {
						t.Errorf("%s, %s: %v", broker.Name, mode, err)
					}
				})
			}
		}
		wg.Wait()
	})
	require.Eventually(t, func() bool { return descriptors(t) <= before }, 5*time.Second, 10*time.Millisecond, "descriptors are left open")
}

// descriptors counts the process's open files.
func descriptors(t testing.TB) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

// costliest is what one hostile answer may cost, in bytes of the heap.
const costliest = 32 << 20

func TestHostileAnswersCostLittle(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(5)) // so that what is measured is little more than what lives
	for i, broker := range kafkatest.OddBrokers() {
		if !broker.Hostile {
			continue
		}
		t.Run(broker.Name, func(t *testing.T) {
			peak := measureHeap(func() {
				require.NoError(t, tryAlone(t, sockets(), &kafkatest.OddBrokers()[i]))
			})
			t.Logf("peak of the heap: %.1f MiB", float64(peak)/(1<<20))
			require.Less(t, peak, uint64(costliest))
		})
	}
}

// measureHeap returns by how much the heap grew at most while f ran.
func measureHeap(f func()) uint64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	now := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	base, peak := now(), uint64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(500 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, now())
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return max(peak, base) - base
}

// One silent broker of three must not slow down the others' answers.
func TestOneSilentBrokerOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulation()
		s.request = 10 * time.Second
		r := newOddRig(t, s, &kafkatest.OddBroker{Script: func(s *kafkatest.Stub) { s.On(kafkawire.APIKeyFindCoordinator, kafkatest.Silent) }}, 2)
		defer func() { require.NoError(t, r.close()) }()
		const callers, calls = 16, 50
		var mu sync.Mutex
		var took []time.Duration
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				for call := range calls {
					outcomes, d, err := r.ask(kafkawire.KeyTypeGroup, []string{fmt.Sprintf("%d-%d", caller, call)})
					mu.Lock()
					took = append(took, d)
					if err != nil || outcomes[0] != (kafkatest.Outcome{}) {
						t.Errorf("%+v, %v", outcomes, err)
					}
					mu.Unlock()
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		slices.Sort(took)
		p99 := took[len(took)*99/100]
		t.Logf("p50 %s, p99 %s, longest %s", took[len(took)/2], p99, took[len(took)-1])
		require.Less(t, p99, s.request/2)
	})
}

// 10,000 failed dials leave nothing behind (keda#6496).
func TestFailedDialsCostNothing(t *testing.T) {
	for name, script := range map[string]func(*kafkatest.Stub){
		"refused": (*kafkatest.Stub).Down,
		"closed":  func(s *kafkatest.Stub) { s.OnConnect((*kafkatest.Conn).Close) },
		"garbage": func(s *kafkatest.Stub) {
			s.On(kafkawire.APIKeyAPIVersions, kafkatest.Raw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newOddRig(t, simulation(), &kafkatest.OddBroker{Script: script}, 0)
				defer func() { require.NoError(t, r.close()) }()
				count := func() int { return r.network.Dials("broker-1:9092") }
				var goroutines int
				var heap uint64
				for n := 0; n < 10; n++ {
					for end := count() + 1000; count() < end; {
						r.ask(kafkawire.KeyTypeGroup, []string{"orders"})
						time.Sleep(time.Second) // else no time passes where the failure is final
					}
					r.odd.Forget()
					synctest.Wait()
					if n == 1 { // warmed up
						goroutines, heap = runtime.NumGoroutine(), liveHeap()
					}
				}
				require.GreaterOrEqual(t, count(), 10_000)
				require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+5)
				require.Less(t, liveHeap(), heap+1<<20)
			})
		})
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
