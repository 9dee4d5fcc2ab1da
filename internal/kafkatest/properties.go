package kafkatest

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// properties are the server.properties of a broker, as its release wants them.
func (b *Broker) properties() map[string]string {
	c, r := b.cluster, b.release
	replicas := fmt.Sprint(min(3, len(c.brokers))) // more than there are brokers, and lookups answer 15 for ever
	p := map[string]string{
		"log.dirs":                         filepath.Join(b.dir, "data"),
		"num.network.threads":              "2",
		"num.io.threads":                   "4",
		"min.insync.replicas":              "1",
		"log.cleaner.dedupe.buffer.size":   "4194304", // 128 MB by default, on the heap
		"offsets.topic.num.partitions":     "50",
		"offsets.topic.replication.factor": replicas,
	}
	if r.atLeast(0, 11) {
		p["group.initial.rebalance.delay.ms"] = "0"
		p["transaction.state.log.num.partitions"] = "50"
		p["transaction.state.log.replication.factor"] = replicas
		p["transaction.state.log.min.isr"] = "1"
	}
	if r.atLeast(4, 0) {
		p["share.coordinator.state.topic.replication.factor"] = replicas
		p["share.coordinator.state.topic.min.isr"] = "1"
	}
	if c.kraft {
		b.addKRaft(p)
	} else {
		b.addZooKeeper(p)
	}
	b.addListeners(p)
	maps.Copy(p, c.options.Properties)
	return p
}

func (b *Broker) addKRaft(p map[string]string) {
	p["process.roles"] = "broker,controller"
	p["node.id"] = fmt.Sprint(b.ID)
	p["controller.quorum.voters"] = b.cluster.voters
	p["controller.listener.names"] = "CONTROLLER"
	if d := b.cluster.options.SessionTimeout; d > 0 {
		p["broker.session.timeout.ms"] = millis(d)
		p["broker.heartbeat.interval.ms"] = millis(d / 6)
	}
}

func (b *Broker) addZooKeeper(p map[string]string) {
	p["broker.id"] = fmt.Sprint(b.ID)
	p["zookeeper.connect"] = b.cluster.zkAddr
	p["zookeeper.connection.timeout.ms"] = "20000"
	if d := b.cluster.options.SessionTimeout; d > 0 {
		p["zookeeper.session.timeout.ms"] = millis(d)
	}
	if b.release.name != b.cluster.oldest.name {
		p["inter.broker.protocol.version"] = b.cluster.oldest.protocol()
	}
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// protocol is the release's own inter.broker.protocol.version: 2.8, 0.10.1.
func (r release) protocol() string {
	n := 2
	if r.numbers[0] == 0 {
		n = 3
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(r.numbers[:n]), " ", "."), "[]")
}

func (b *Broker) addListeners(p map[string]string) {
	if !b.release.atLeast(0, 9) { // one listener, in the clear
		p["host.name"] = "127.0.0.1"
		p["port"] = fmt.Sprint(b.ports[plaintext])
		return
	}
	open := []string{plaintext + "://" + b.Addr()}
	protocols := []string{plaintext + ":" + plaintext}
	for _, l := range b.cluster.options.Listeners {
		open = append(open, l.Name+"://"+b.AddrOf(l.Name))
		protocols = append(protocols, l.Name+":"+l.protocol())
	}
	p["advertised.listeners"] = strings.Join(open, ",")
	if b.cluster.kraft {
		open = append(open, fmt.Sprintf("CONTROLLER://127.0.0.1:%d", b.controller))
		protocols = append(protocols, "CONTROLLER:"+plaintext)
	}
	p["listeners"] = strings.Join(open, ",")
	if b.release.atLeast(0, 10, 2) {
		p["listener.security.protocol.map"] = strings.Join(protocols, ",")
	}
}

func (l Listener) protocol() string {
	if l.Protocol == "" {
		return l.Name
	}
	return l.Protocol
}

func writeProperties(file string, p map[string]string) error {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		// A backslash or a line's end in a value would be read as syntax.
		value := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(p[name])
		fmt.Fprintf(&b, "%s=%s\n", name, value)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("settings for Kafka: %w", err)
	}
	return nil
}

// Kafka logs through log4j 1 below 4.0 and log4j 2 from there on. Both print to
// standard output, which goes to the broker's log file.
const (
	log4jFile  = "log4j.properties"
	log4j2File = "log4j2.xml"

	log4jSettings = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
`
	log4j2Settings = `<Configuration status="WARN">
<Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
`
)

func writeLogSettings(dir string) error {
	for name, text := range map[string]string{log4jFile: log4jSettings, log4j2File: log4j2Settings} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("settings for Kafka: %w", err)
		}
	}
	return nil
}

// zooKeeperAnswers asks for the server's state; "srvr" is the one such word that
// all ZooKeeper releases allow.
func zooKeeperAnswers(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return err
	}
	if !strings.Contains(string(answer), "Mode: ") {
		return fmt.Errorf("ZooKeeper says %q", answer)
	}
	return nil
}
