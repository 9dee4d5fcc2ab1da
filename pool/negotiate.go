package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coordsvc/coordsvc/kafkawire"
)

const (
	// learnedFor is how long what was learned about an endpoint's ApiVersions holds:
	// brokers are upgraded, and a silence may have been a busy moment.
	learnedFor = 10 * time.Minute
	// secondSilence bounds the wait for ApiVersions v0 once a higher version met
	// silence: a broker that knows the API at all answers every version.
	secondSilence = 2 * time.Second
	// lateAnswer is how long a connection that met silence is listened to in the
	// end, to tell a slow broker from one without ApiVersions.
	lateAnswer = 50 * time.Millisecond
	// noAPIVersions stands, among the versions of ApiVersions, for a broker that does
	// not have it: Kafka before 0.10.
	noAPIVersions kafkawire.Version = -1
)

// versions is what a connection may send.
type versions struct {
	findCoordinator      kafkawire.Version
	findCoordinatorRange kafkawire.VersionRange // the broker's
	apiVersions          kafkawire.Version      // that was answered, or noAPIVersions
	apiVersionsRange     kafkawire.VersionRange // the broker's
	metadata             kafkawire.Version      // -1 where the broker has no version that we speak,
	saslHandshake        kafkawire.Version      // and so these
	saslAuthenticate     kafkawire.Version
	assumed              bool // without ApiVersions: FindCoordinator v0 for groups, no more
}

var assumedVersions = versions{
	findCoordinatorRange: kafkawire.VersionRange{Min: 0, Max: 0},
	apiVersions:          noAPIVersions,
	apiVersionsRange:     kafkawire.VersionRange{Min: noAPIVersions, Max: noAPIVersions},
	assumed:              true,
}

// learned is what connections to an endpoint have found out about ApiVersions, so
// that only the first pays for it.
type learned struct {
	mu    sync.Mutex
	first kafkawire.Version // what to ask first
	since time.Time         // zero: nothing is known
	spoke time.Time         // when ApiVersions was last answered
}

// recall returns the version to ask first. Where nothing is known any more it is
// highest, and known is false.
func (l *learned) recall(highest kafkawire.Version) (first kafkawire.Version, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || time.Since(l.since) > learnedFor {
		return highest, false
	}
	return l.first, true
}

func (l *learned) keep(first kafkawire.Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.since = first, time.Now()
}

// heard notes that ApiVersions was answered.
func (l *learned) heard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spoke = time.Now()
}

// spokeLately reports whether the endpoint has answered ApiVersions, so that a close
// or a silence now has another reason than a broker that does not know it.
func (l *learned) spokeLately() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.spoke.IsZero() && time.Since(l.spoke) <= learnedFor
}

func (l *learned) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Time{}
}

// negotiation is how a connection to an endpoint comes to its versions:
//
//	asked       answered           next
//	v > 0       the API list       ready
//	v > 0       35                 on the same connection: the version offered if lower, else v0
//	v > 0       closed, silence    a new connection: v0 is asked
//	v0          closed, silence    a new connection: it is not asked, but must answer Metadata v0
//	none        closed, silence    failed
//
// That is three dials at most. Only an endpoint of which nothing is known walks
// down; a close or a silence where more is known fails at once, and a close has it
// forgotten. One that answered ApiVersions within ten minutes is not taken for a
// broker without: it would be asked for groups alone, though it is only restarting.
type negotiation struct {
	e       *endpoint
	highest kafkawire.Version
	met     []error // what each connection met that did not become ready
	silent  []*conn // connections that did not answer, kept to hear if they do after all
}

// run opens connections until one is ready.
func (n *negotiation) run(ctx context.Context) (*conn, error) {
	defer n.hangUp()
	ask, known := n.e.learned.recall(n.highest)
	for {
		c, err := n.e.open(ctx)
		if err != nil {
			return nil, err
		}
		answered, err := n.ask(ctx, c, ask, known)
		if err == nil {
			if !known {
				n.e.learned.keep(answered)
			}
			if answered != noAPIVersions {
				n.e.learned.heard()
			}
			return c, nil
		}
		again := n.mayBeOld(c, err)
		if !again || known || ask == n.lowest() || ask == 0 && n.e.learned.spokeLately() {
			if again && KindOf(err) == Unreachable {
				n.e.learned.forget()
			}
			c.close()
			return nil, n.verdict(err)
		}
		n.met = append(n.met, err)
		if KindOf(err) == Timeout {
			n.silent = append(n.silent, c)
		} else {
			c.close()
		}
		ask = max(noAPIVersions, min(ask-1, 0)) // any version, then v0, then none
	}
}

// lowest is the last version to ask. Brokers without ApiVersions have no SASL that is
// spoken here, and what is asked of them (Metadata) a listener with SASL would refuse.
func (n *negotiation) lowest() kafkawire.Version {
	if n.e.sasl != nil {
		return 0
	}
	return noAPIVersions
}

// mayBeOld reports whether the connection met what brokers do that do not know the
// request: a close, or silence. A part of an answer is neither, and nor is a code.
func (n *negotiation) mayBeOld(c *conn, err error) bool {
	var code *codeError
	if errors.As(err, &code) {
		return false
	}
	kind := KindOf(err)
	return (kind == Unreachable || kind == Timeout) && c.in.buffered() == 0
}

// ask has the connection negotiate, beginning with version first, and returns the
// version that was answered.
func (n *negotiation) ask(ctx context.Context, c *conn, first kafkawire.Version, known bool) (kafkawire.Version, error) {
	if first == noAPIVersions {
		return first, n.assume(ctx, c, known)
	}
	if len(n.silent) > 0 {
		c.timeout = min(c.timeout, secondSilence)
	}
	for asked := first; ; {
		var resp kafkawire.APIVersionsResponse
		req := &kafkawire.APIVersionsRequest{
			ClientSoftwareName:    softwareField(n.e.cfg.SoftwareName),
			ClientSoftwareVersion: softwareField(n.e.cfg.SoftwareVersion),
			NodeID:                kafkawire.NoNode,
		}
		if err := c.call(ctx, req, &resp, asked); err != nil {
			return asked, notKafkaAtAll(err)
		}
		switch {
		case resp.ErrorCode == kafkawire.ErrNone:
			return asked, c.adopt(&resp, asked)
		case resp.ErrorCode == kafkawire.ErrUnsupportedVersion && asked > 0:
			asked = lowerVersion(&resp, asked)
		default:
			c.broken = &Error{Kind: kindOfCode(resp.ErrorCode), Addr: c.addr, Op: fmt.Sprintf("%s v%d", kafkawire.APIKeyAPIVersions, asked),
				Have: noVersions, Want: kafkawire.Supported(kafkawire.APIKeyFindCoordinator), Err: &codeError{resp.ErrorCode}}
			return asked, c.broken
		}
	}
}

// lowerVersion is what to ask after the refusal of asked: what the broker offers
// (Kafka 2.4 and later do, KIP-511) if that is lower, or else v0, which every
// broker with ApiVersions has.
func lowerVersion(refusal *kafkawire.APIVersionsResponse, asked kafkawire.Version) kafkawire.Version {
	offered, ok := refusal.Range(kafkawire.APIKeyAPIVersions)
	if !ok || offered.Max >= asked || offered.Max < 0 {
		return 0
	}
	return offered.Max
}

// assume takes the broker for one without ApiVersions. The first time it must show
// that it is a broker at all: one that is paused, and a load balancer with nothing
// behind it, are silent or close as well. Metadata is what discovery asks next in
// any case, and unlike a lookup it creates no topic.
func (n *negotiation) assume(ctx context.Context, c *conn, known bool) error {
	c.versions = assumedVersions
	if known {
		return nil
	}
	c.maxFrame = maxFrame // v0 has no way to ask for no topics
	if _, err := c.askMetadata(ctx); err != nil {
		return notKafkaAtAll(err)
	}
	for _, silent := range n.silent {
		if silent.answersAfterAll() {
			return &Error{Kind: Timeout, Addr: c.addr, Op: "ApiVersions", Err: errors.New("the broker is slow: it answered, but late")}
		}
	}
	return nil
}

// answersAfterAll reports whether bytes have come on a connection that was given up.
func (c *conn) answersAfterAll() bool {
	if c.nc.SetReadDeadline(time.Now().Add(lateAnswer)) != nil {
		return false
	}
	var b [1]byte
	n, _ := c.nc.Read(b[:])
	return n > 0
}

func (n *negotiation) hangUp() {
	for _, c := range n.silent {
		c.close()
	}
}

// verdict is err, with what was met before it.
func (n *negotiation) verdict(err error) error {
	var last *Error
	if len(n.met) == 0 || !errors.As(err, &last) {
		return err
	}
	return &Error{Kind: last.Kind, Addr: n.e.addr, Op: "negotiate", Have: last.Have, Want: last.Want,
		Err: fmt.Errorf("%w (a listener that wants %s may do so, or a load balancer with nothing behind it)", causes(append(n.met, err)), n.e.missing())}
}

// missing is what a listener may want that the endpoint has not.
func (e *endpoint) missing() string {
	switch {
	case e.cfg.TLS == nil:
		return "TLS or SASL"
	case e.sasl == nil:
		return "a client certificate or SASL"
	default:
		return "a client certificate"
	}
}

// noVersions is what a broker offers of an API that it does not have.
var noVersions = kafkawire.VersionRange{Min: -1, Max: -1}

// adopt takes the versions from the broker's list.
func (c *conn) adopt(list *kafkawire.APIVersionsResponse, answered kafkawire.Version) error {
	theirs, ok := list.Range(kafkawire.APIKeyFindCoordinator)
	ours := kafkawire.Supported(kafkawire.APIKeyFindCoordinator)
	if !ok {
		c.broken = &Error{Kind: Unsupported, Addr: c.addr, Op: "negotiate", Have: noVersions, Want: ours,
			Err: errors.New("it offers no FindCoordinator: is this a KRaft controller's port, or a proxy's?")}
		return c.broken
	}
	v, err := kafkawire.Negotiate(ours, theirs)
	if err != nil {
		c.broken = &Error{Kind: Unsupported, Addr: c.addr, Op: "negotiate FindCoordinator", Have: theirs, Want: ours, Err: err}
		return c.broken
	}
	c.versions = versions{
		findCoordinator: v, findCoordinatorRange: theirs,
		apiVersions:      answered,
		metadata:         common(list, kafkawire.APIKeyMetadata),
		saslHandshake:    common(list, kafkawire.APIKeySaslHandshake),
		saslAuthenticate: common(list, kafkawire.APIKeySaslAuthenticate),
	}
	c.versions.apiVersionsRange, ok = list.Range(kafkawire.APIKeyAPIVersions)
	if !ok {
		c.versions.apiVersionsRange = kafkawire.VersionRange{Min: answered, Max: answered}
	}
	return nil
}

// common is the highest version of an API that both sides have, or -1.
func common(list *kafkawire.APIVersionsResponse, key kafkawire.APIKey) kafkawire.Version {
	theirs, ok := list.Range(key)
	if !ok {
		return -1
	}
	v, err := kafkawire.Negotiate(kafkawire.Supported(key), theirs)
	if err != nil {
		return -1
	}
	return v
}

// notKafkaAtAll turns an answer that makes no sense, where none has before, into
// the verdict that no broker answers.
func notKafkaAtAll(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Kind == InvalidAnswer {
		return &Error{Kind: NotKafka, Addr: e.Addr, Op: e.Op, Err: e.Err}
	}
	return err
}

// A codeError is an error code that a broker answered.
type codeError struct{ code kafkawire.ErrorCode }

func (e *codeError) Error() string {
	return fmt.Sprintf("the broker refused: %s (%d): %s", e.code.Name(), int16(e.code), e.code.Meaning())
}

func kindOfCode(code kafkawire.ErrorCode) ErrorKind {
	switch code {
	case kafkawire.ErrUnsupportedVersion:
		return Unsupported
	case kafkawire.ErrIllegalSaslState, kafkawire.ErrSaslAuthenticationFailed, kafkawire.ErrUnsupportedSaslMechanism:
		return SASLFailed
	case kafkawire.ErrRebootstrapRequired:
		return Unreachable
	default:
		return InvalidAnswer
	}
}

// wantsRebootstrap reports whether a broker said that the client was led to the
// wrong cluster or node (KIP-1102, KIP-1242).
func wantsRebootstrap(err error) bool {
	var e *codeError
	return errors.As(err, &e) && e.code == kafkawire.ErrRebootstrapRequired
}
