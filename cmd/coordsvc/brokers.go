package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/server"
)

type brokersCmd struct {
	lookupSettings

	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table, or json as GET /v1/brokers answers it. Default: table."`
}

// Help is shown by kong under the usage.
func (brokersCmd) Help() string {
	return `It connects once to each address given and to each broker that the cluster names, and shows what was negotiated: the place to start when a lookup fails.

Examples:

    coordsvc brokers --kafka-brokers kafka-1.example:9092
    coordsvc brokers --kafka-brokers kafka-1.example:9092 -o json

Exit codes: 0 every broker is up; 1 some are not; 2 wrong usage; 3 none is.`
}

// Run connects, and shows the brokers once each was tried or the time is up.
func (c *brokersCmd) Run(inv *invocation) error {
	loaded, err := c.loadFitted(inv)
	if err != nil {
		return err
	}
	timeout := loaded.Lookup.DefaultTimeout
	ctx, cancel := context.WithTimeout(inv.ctx, timeout)
	defer cancel()
	if loaded.Origin("kafka.request-timeout").Source == config.SourceDefault {
		// Where one broker does not say who the others are, another is still asked.
		loaded.Kafka.RequestTimeout = min(loaded.Kafka.RequestTimeout, timeout/2)
	}
	brokers, err := c.tryBrokers(ctx, inv, loaded)
	if err != nil {
		return err
	}
	// The pool stops at the first address that names the cluster's brokers: the others
	// that were given may be misspelt, or other names of those brokers.
	given := *loaded
	given.Kafka.DiscoverBrokers = false
	given.Kafka.Brokers = untriedAddresses(brokers)
	if len(given.Kafka.Brokers) > 0 && ctx.Err() == nil {
		others, err := c.tryBrokers(ctx, inv, &given)
		if err != nil {
			return err
		}
		brokers.Brokers = append(slices.DeleteFunc(brokers.GetBrokers(), isUntriedAddress), others.GetBrokers()...)
		slices.SortFunc(brokers.GetBrokers(), func(a, b *coordsvcv1.Broker) int {
			return cmp.Or(cmp.Compare(a.GetNodeId(), b.GetNodeId()), cmp.Compare(a.GetHost(), b.GetHost()), cmp.Compare(a.GetPort(), b.GetPort()))
		})
	}
	if err := printBrokers(inv.out, c.Output, brokers); err != nil {
		return outputFailure(err)
	}
	up := 0
	for _, b := range brokers.GetBrokers() {
		if b.GetReachable() {
			up++
		}
	}
	switch up {
	case len(brokers.GetBrokers()):
		return nil
	case 0:
		return &failure{code: exitUnreachable}
	default:
		return &failure{code: exitFailed}
	}
}

// brokerPoll is how often tryBrokers looks.
const brokerPoll = 20 * time.Millisecond

// tryBrokers gives the brokers once each that the cluster names was tried, or ctx has ended.
func (c *brokersCmd) tryBrokers(ctx context.Context, inv *invocation, loaded *config.Loaded) (*coordsvcv1.ListBrokersResponse, error) {
	instance, closeInstance, err := c.connect(inv, loaded)
	if err != nil {
		return nil, err
	}
	defer closeInstance()
	for {
		list, err := instance.ListBrokers(inv.ctx, &coordsvcv1.ListBrokersRequest{})
		if err != nil {
			return nil, lookupFailure(err)
		}
		if ctx.Err() != nil || !waiting(list.GetBrokers(), loaded.Kafka.DiscoverBrokers) {
			return list, nil
		}
		select {
		case <-inv.ctx.Done():
			return nil, errInterrupted
		case <-ctx.Done():
		case <-time.After(brokerPoll):
		}
	}
}

// waiting reports whether to wait for a broker that was not tried, or for the cluster
// to name its brokers: then it is they who are tried.
func waiting(brokers []*coordsvcv1.Broker, discover bool) bool {
	untried := slices.ContainsFunc(brokers, isUntried)
	if !discover {
		return untried
	}
	if slices.ContainsFunc(brokers, isNamed) {
		return slices.ContainsFunc(brokers, func(b *coordsvcv1.Broker) bool { return isUntried(b) && isNamed(b) })
	}
	return untried || slices.ContainsFunc(brokers, (*coordsvcv1.Broker).GetReachable)
}

func isNamed(b *coordsvcv1.Broker) bool { return b.GetNodeId() >= 0 }

func isUntried(b *coordsvcv1.Broker) bool {
	return b.GetState() == coordsvcv1.BrokerState_BROKER_STATE_UNTRIED
}

// isUntriedAddress reports whether b is an address that was given and not tried.
func isUntriedAddress(b *coordsvcv1.Broker) bool { return isUntried(b) && !isNamed(b) }

func untriedAddresses(list *coordsvcv1.ListBrokersResponse) []string {
	var addresses []string
	for _, b := range list.GetBrokers() {
		if isUntriedAddress(b) {
			addresses = append(addresses, addressText(b))
		}
	}
	return addresses
}

func addressText(b *coordsvcv1.Broker) string {
	return net.JoinHostPort(b.GetHost(), strconv.Itoa(int(b.GetPort())))
}

func printBrokers(w io.Writer, format string, list *coordsvcv1.ListBrokersResponse) error {
	if format == "json" {
		text, err := server.MarshalJSON(list)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", text)
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tADDRESS\tSTATE\tFINDCOORDINATOR\tAPIVERSIONS\tSASL\tOPEN\tLAST ERROR")
	for _, b := range list.GetBrokers() {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n",
			nodeText(b), displayText(addressText(b)), stateTexts[b.GetState()],
			findCoordinatorText(b), rangeText(b.GetApiVersionsRange()), saslText(b), b.GetConnections().GetOpen(), lastErrorText(b))
	}
	return table.Flush()
}

var stateTexts = map[coordsvcv1.BrokerState]string{
	coordsvcv1.BrokerState_BROKER_STATE_UNTRIED: "untried",
	coordsvcv1.BrokerState_BROKER_STATE_UP:      "up",
	coordsvcv1.BrokerState_BROKER_STATE_SUSPECT: "suspect",
	coordsvcv1.BrokerState_BROKER_STATE_DOWN:    "down",
}

// none stands in a cell where there is nothing to show.
const none = "-"

func nodeText(b *coordsvcv1.Broker) string {
	if !isNamed(b) {
		return none
	}
	return strconv.Itoa(int(b.GetNodeId()))
}

func findCoordinatorText(b *coordsvcv1.Broker) string {
	if b.FindCoordinatorVersion == nil {
		return none
	}
	return fmt.Sprintf("v%d of %s", b.GetFindCoordinatorVersion(), rangeText(b.GetFindCoordinatorRange()))
}

func rangeText(r *coordsvcv1.VersionRange) string {
	if r == nil {
		return none
	}
	return fmt.Sprintf("%d-%d", r.GetMin(), r.GetMax())
}

func saslText(b *coordsvcv1.Broker) string {
	switch {
	case b.GetSaslMechanism() == "":
		return none
	case b.GetReauthenticatesIn() == nil:
		return b.GetSaslMechanism()
	default:
		return fmt.Sprintf("%s, again in %v", b.GetSaslMechanism(), b.GetReauthenticatesIn().AsDuration().Round(time.Second))
	}
}

func lastErrorText(b *coordsvcv1.Broker) string {
	e := b.GetLastError()
	if e == nil {
		return none
	}
	return fmt.Sprintf("%s: %s (%s)", displayText(e.GetReason()), displayText(e.GetMessage()), e.GetTime().AsTime().Local().Format(time.DateTime))
}
