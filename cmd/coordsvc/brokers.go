package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"text/tabwriter"
	"time"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/server"
)

type brokersCmd struct {
	lookupSettings

	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORMAT" help:"table, or json as GET /v1/brokers answers it. Default: table."`
}

// Help is shown by kong under the usage.
func (brokersCmd) Help() string {
	return `It connects to each broker once and shows what was negotiated: the place to start when a lookup fails.

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
	instance, closeInstance, err := c.connect(inv, loaded)
	if err != nil {
		return err
	}
	defer closeInstance()

	brokers, err := triedBrokers(inv.ctx, instance, loaded.Lookup.DefaultTimeout, loaded.Kafka.DiscoverBrokers)
	if err != nil {
		return err
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

// brokerPoll is how often triedBrokers looks.
const brokerPoll = 20 * time.Millisecond

// triedBrokers waits until each broker that the cluster names was tried, or the time
// is up. Bootstrap addresses that the cluster knows by other names are left out then:
// nothing was asked of them.
func triedBrokers(ctx context.Context, i *instance, timeout time.Duration, discover bool) (*coordsvcv1.ListBrokersResponse, error) {
	deadline := time.After(timeout)
	for over := false; ; {
		list, err := i.ListBrokers(ctx, &coordsvcv1.ListBrokersRequest{})
		if err != nil {
			return nil, lookupFailure(err)
		}
		if tried, waiting := splitTried(list.GetBrokers(), discover); over || len(tried) > 0 && !waiting {
			if len(tried) == 0 {
				tried = list.GetBrokers()
			}
			return &coordsvcv1.ListBrokersResponse{Brokers: tried}, nil
		}
		select {
		case <-ctx.Done():
			return nil, errInterrupted
		case <-deadline:
			over = true
		case <-time.After(brokerPoll):
		}
	}
}

// splitTried gives the brokers that were tried, and whether to wait for others:
// brokers that are named but were not tried, or for the cluster to name its brokers.
func splitTried(brokers []*coordsvcv1.Broker, discover bool) ([]*coordsvcv1.Broker, bool) {
	var tried []*coordsvcv1.Broker
	untried, up, named := false, false, false
	for _, b := range brokers {
		known := b.GetNodeId() >= 0
		named = named || known
		up = up || b.GetReachable()
		switch {
		case b.GetState() != coordsvcv1.BrokerState_BROKER_STATE_UNTRIED:
			tried = append(tried, b)
		case known || !named:
			untried = true
		}
	}
	return tried, untried || discover && up && !named
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
			nodeText(b), displayText(net.JoinHostPort(b.GetHost(), strconv.Itoa(int(b.GetPort())))), stateTexts[b.GetState()],
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
	if b.GetNodeId() < 0 {
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
