package kafkatest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options say which Apache Kafka to start. The zero value but for Version is a
// cluster of one broker.
type Options struct {
	// Version is the release of every broker, "4.4.0". From 3.3 on brokers are
	// controllers too (KRaft); below, one ZooKeeper is started with them.
	Version string

	// Brokers is how many to start; 0 means 1. Their ids count from 1.
	Brokers int

	// Versions, in place of Version and Brokers, gives each broker a release of
	// its own. They speak to each other as the oldest does; where that one is
	// below 3.3, all of them use ZooKeeper, and none can be 4.0 or later.
	Versions []string

	// Listeners are opened in addition to PLAINTEXT, on a port of their own for
	// each broker.
	Listeners []Listener

	// Properties are added to every server.properties, in place of what would
	// stand there under the same name.
	Properties map[string]string

	// FormatArgs are added to the command that formats a KRaft broker's storage,
	// for example "--add-scram", "SCRAM-SHA-256=[name=alice,password=secret]".
	FormatArgs []string

	// JVMArgs are added to the brokers' java command.
	JVMArgs []string

	// SessionTimeout is how long a dead broker counts as alive. 0 leaves Kafka's
	// default (9 s with KRaft, 6 s or 18 s with ZooKeeper). Below 3 s, a busy
	// machine makes live brokers drop out.
	SessionTimeout time.Duration

	// Dir is where data and logs go. Empty means a temporary directory that
	// Close removes.
	Dir string
}

// Listener is one more way into each broker.
type Listener struct {
	Name     string // "SASL_SSL", or any word from 0.10.2 on
	Protocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; empty means Name
}

// plaintext is the listener that every broker has and that brokers use among
// themselves.
const plaintext = "PLAINTEXT"

// startTimeout covers a start or restart, without fetching jars: a JVM takes 2
// to 8 s on two idle cores.
const startTimeout = 2 * time.Minute

// stopGrace is how long a broker may take to hand over its partitions.
const stopGrace = 20 * time.Second

// Cluster is a running Apache Kafka.
type Cluster struct {
	options   Options
	dir       string
	ownDir    bool
	java      string
	oldest    release
	newest    release
	kraft     bool // else ZooKeeper
	zookeeper *process
	zkAddr    string
	voters    string // controller.quorum.voters
	brokers   []*Broker
	unreserve []func()
	once      sync.Once
}

// Broker is one broker of a Cluster. Its methods may be called from several
// goroutines, one after the other.
type Broker struct {
	ID int32

	cluster    *Cluster
	dir        string
	ports      map[string]int // by listener name
	controller int            // port of the KRaft controller

	mu      sync.Mutex
	release release
	process *process
}

// Start is Launch for a test: it fails the test, and closes the cluster at its
// end. Logs of a failed test stay.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := Launch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && c.ownDir {
			c.ownDir = false
			t.Logf("logs of Kafka %s are kept in %s", o.Version, c.dir)
		}
		c.Close()
	})
	return c
}

// Launch starts a cluster and returns once every broker answers and knows all
// the others. The caller calls Close. The logs of a start that failed stay. Whatever way this process ends, its
// brokers end too (on Linux).
func Launch(ctx context.Context, o Options) (*Cluster, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	c := &Cluster{options: o}
	if err := c.start(ctx); err != nil {
		c.ownDir = false // the logs stay
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	releases, err := c.options.releases()
	if err != nil {
		return err
	}
	c.oldest, c.newest = slices.MinFunc(releases, release.compare), slices.MaxFunc(releases, release.compare)
	c.kraft = c.oldest.kraft()
	for _, r := range releases { // before the clock of startTimeout runs
		if _, err := jars(ctx, r); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.prepare(releases); err != nil {
		return err
	}
	if !c.kraft {
		if err := c.startZooKeeper(ctx, c.newest); err != nil {
			return err
		}
	}
	var all []int32
	group, groupCtx := errgroup.WithContext(ctx)
	for _, b := range c.brokers {
		all = append(all, b.ID)
		group.Go(func() error { return b.start(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, b := range c.brokers {
		if err := b.waitReady(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// releases are those of the brokers, one each.
func (o Options) releases() ([]release, error) {
	versions := o.Versions
	if len(versions) == 0 {
		versions = slices.Repeat([]string{o.Version}, max(1, o.Brokers))
	}
	var list []release
	for _, v := range versions {
		r, err := parseRelease(v)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	for _, r := range list {
		if r.atLeast(4, 0) && !slices.MinFunc(list, release.compare).kraft() {
			return nil, fmt.Errorf("kafka %s cannot join a cluster that uses ZooKeeper, as brokers below 3.3 do here", r.name)
		}
	}
	return list, nil
}

// prepare makes the folders and takes the ports.
func (c *Cluster) prepare(releases []release) error {
	var err error
	if c.java, err = javaPath(); err != nil {
		return err
	}
	if c.dir = c.options.Dir; c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "coordsvc-kafka-"); err != nil {
			return fmt.Errorf("folder for Kafka: %w", err)
		}
		c.ownDir = true
	} else if c.dir, err = filepath.Abs(c.dir); err != nil {
		return fmt.Errorf("folder for Kafka: %w", err)
	}
	var voters []string
	for i, r := range releases {
		b := &Broker{ID: int32(i + 1), cluster: c, release: r, ports: make(map[string]int)}
		b.dir = filepath.Join(c.dir, fmt.Sprintf("broker-%d", b.ID))
		if err := os.MkdirAll(b.dir, 0o755); err != nil {
			return fmt.Errorf("folder for Kafka: %w", err)
		}
		for _, l := range append([]Listener{{Name: plaintext}}, c.options.Listeners...) {
			if b.ports[l.Name], err = c.reserve(); err != nil {
				return err
			}
		}
		if c.kraft {
			if b.controller, err = c.reserve(); err != nil {
				return err
			}
			voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", b.ID, b.controller))
		}
		c.brokers = append(c.brokers, b)
	}
	c.voters = strings.Join(voters, ",")
	return writeLogSettings(c.dir)
}

func (c *Cluster) reserve() (int, error) {
	port, unreserve, err := reservePort()
	if err != nil {
		return 0, err
	}
	c.unreserve = append(c.unreserve, unreserve)
	return port, nil
}

// Bootstrap lists the PLAINTEXT addresses of all brokers, host:port.
func (c *Cluster) Bootstrap() []string { return c.BootstrapOf(plaintext) }

// BootstrapOf lists the addresses of all brokers at one listener.
func (c *Cluster) BootstrapOf(listener string) []string {
	var list []string
	for _, b := range c.brokers {
		list = append(list, b.AddrOf(listener))
	}
	return list
}

// Brokers are all brokers, in the order of their ids.
func (c *Cluster) Brokers() []*Broker { return c.brokers }

// Broker is the broker with an id, counted from 1.
func (c *Cluster) Broker(id int32) *Broker { return c.brokers[id-1] }

// Dir holds the data and the logs: broker-1/log and so on, zookeeper/log.
func (c *Cluster) Dir() string { return c.dir }

// Close kills the brokers, then ZooKeeper, and removes a temporary directory. An
// orderly stop would only keep data that is thrown away.
func (c *Cluster) Close() error {
	var err error
	c.once.Do(func() {
		for _, b := range c.brokers {
			b.Kill()
		}
		if c.zookeeper != nil {
			c.zookeeper.kill()
		}
		for _, unreserve := range c.unreserve {
			unreserve()
		}
		if c.ownDir {
			err = os.RemoveAll(c.dir)
		}
	})
	return err
}

// Addr is host:port of the PLAINTEXT listener.
func (b *Broker) Addr() string { return b.AddrOf(plaintext) }

// AddrOf is host:port of a listener.
func (b *Broker) AddrOf(listener string) string {
	return fmt.Sprintf("127.0.0.1:%d", b.ports[listener])
}

// Version is the release that the broker runs.
func (b *Broker) Version() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.release.name
}

// Log is the file that the broker writes to; it goes on over restarts.
func (b *Broker) Log() string { return filepath.Join(b.dir, "log") }

// Kill ends the broker as kill -9 or a power cut does. Killing a dead one is no
// error.
func (b *Broker) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil {
		b.process.kill()
	}
}

// Stop ends the broker in order: it hands over its partitions first.
func (b *Broker) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil || !b.process.running() {
		return nil
	}
	return b.process.stop(stopGrace)
}

// Pause freezes the broker: its connections stay open and nothing answers. It returns
// once that is so.
func (b *Broker) Pause() error {
	if err := b.signal(signalPause); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return awaitPaused(b.process.process.Pid)
}

// Resume ends a Pause.
func (b *Broker) Resume() error { return b.signal(signalContinue) }

func (b *Broker) signal(s os.Signal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.process.signal(s)
}

// Restart stops the broker if it runs, starts it again on the same ports and
// data, and returns once it answers.
func (b *Broker) Restart(ctx context.Context) error { return b.RestartAs(ctx, b.Version()) }

// RestartAs is Restart with another release, as in a rolling upgrade: with a
// newer one, which goes on to speak as the oldest that the cluster began with.
func (b *Broker) RestartAs(ctx context.Context, version string) error {
	r, err := parseRelease(version)
	if err != nil {
		return err
	}
	if _, err := jars(ctx, r); err != nil {
		return err
	}
	if err := b.Stop(); err != nil {
		return err
	}
	b.mu.Lock()
	b.release = r
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := b.start(ctx); err != nil {
		return err
	}
	return b.waitReady(ctx, []int32{b.ID})
}

func (b *Broker) start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	config := filepath.Join(b.dir, "server.properties")
	if err := writeProperties(config, b.properties()); err != nil {
		return err
	}
	if b.cluster.kraft {
		if err := b.format(ctx, config); err != nil {
			return err
		}
	}
	argv, err := b.cluster.javaCommand(ctx, b.release, b.cluster.options.JVMArgs, "kafka.Kafka", config)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("broker %d of Kafka %s", b.ID, b.release.name)
	b.process, err = startProcess(name, b.Log(), b.dir, argv)
	return err
}

// clusterID is any UUID in Kafka's form, 22 characters of base64url.
const clusterID = "Y29vcmRzdmMtdGVzdHMtMQ"

// format prepares the storage of a KRaft broker, once.
func (b *Broker) format(ctx context.Context, config string) error {
	if _, err := os.Stat(filepath.Join(b.dir, "data", "meta.properties")); err == nil {
		return nil
	}
	args := []string{"kafka.tools.StorageTool", "format", "-t", clusterID, "-c", config}
	if b.release.name != b.cluster.oldest.name {
		args = append(args, "--release-version", b.cluster.oldest.protocol())
	}
	args = append(args, b.cluster.options.FormatArgs...)
	argv, err := b.cluster.javaCommand(ctx, b.release, nil, args...)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("the storage format of broker %d of Kafka %s", b.ID, b.release.name)
	p, err := startProcess(name, filepath.Join(b.dir, "format.log"), b.dir, argv)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
	if p.err != nil {
		return p.failure()
	}
	return nil
}

func (c *Cluster) startZooKeeper(ctx context.Context, r release) error {
	port, err := c.reserve()
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, "zookeeper")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("folder for ZooKeeper: %w", err)
	}
	config := filepath.Join(dir, "zookeeper.properties")
	if err := writeProperties(config, map[string]string{
		"dataDir":            dir,
		"clientPort":         fmt.Sprint(port),
		"clientPortAddress":  "127.0.0.1",
		"maxClientCnxns":     "0",
		"admin.enableServer": "false",
		"tickTime":           "500", // ms; sessions last 2 to 20 ticks
	}); err != nil {
		return err
	}
	argv, err := c.javaCommand(ctx, r, nil, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	if err != nil {
		return err
	}
	c.zkAddr = fmt.Sprintf("127.0.0.1:%d", port)
	c.zookeeper, err = startProcess("ZooKeeper for Kafka "+r.name, filepath.Join(dir, "log"), dir, argv)
	if err != nil {
		return err
	}
	return c.zookeeper.waitUntil(ctx, func() error { return zooKeeperAnswers(c.zkAddr) })
}

// javaCommand is a command line that runs a main class of a release.
func (c *Cluster) javaCommand(ctx context.Context, r release, jvmArgs []string, args ...string) ([]string, error) {
	dir, err := jars(ctx, r)
	if err != nil {
		return nil, err
	}
	argv := []string{
		c.java, "-Xmx384m", "-Xms64m", "-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1", // starts faster; for measurements, JVMArgs may say 4
		"-Dlog4j.configuration=file:" + filepath.Join(c.dir, log4jFile),
		"-Dlog4j2.configurationFile=" + filepath.Join(c.dir, log4j2File),
		"-Dzookeeper.sasl.client=false",
	}
	for _, pkg := range []string{"lang", "nio", "util"} { // what old releases reach into
		argv = append(argv, "--add-opens", "java.base/java."+pkg+"=ALL-UNNAMED")
	}
	argv = append(argv, "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED")
	argv = append(argv, jvmArgs...)
	argv = append(argv, "-cp", filepath.Join(dir, "*"))
	return append(argv, args...), nil
}

// waitReady returns once the broker names all of want as brokers of its cluster.
func (b *Broker) waitReady(ctx context.Context, want []int32) error {
	b.mu.Lock()
	p, r := b.process, b.release
	b.mu.Unlock()
	return p.waitUntil(ctx, func() error {
		known, err := rawBrokers(b.Addr(), 2*time.Second)
		if err != nil {
			return err
		}
		if !r.atLeast(0, 9) { // names no broker before there is a topic
			return p.said("], started (kafka.server.KafkaServer)")
		}
		for _, id := range want {
			if _, ok := known[id]; !ok {
				return fmt.Errorf("it does not know broker %d yet", id)
			}
		}
		return nil
	})
}

// waitUntil tries answers until it succeeds, the process ends or ctx does.
func (p *process) waitUntil(ctx context.Context, answers func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := answers()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w (%w); from %s:\n%s", p.name, err, ctx.Err(), p.log, p.lastWords())
		case <-tick.C:
		}
	}
}
