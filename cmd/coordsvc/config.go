package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"

	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/server"
)

type configCmd struct {
	settingsFlags

	Output string `short:"o" enum:"table,json,yaml" default:"table" placeholder:"FORMAT" help:"One of table, json, yaml. The YAML is a settings file."`
}

// Help is shown by kong under the usage.
func (configCmd) Help() string {
	return `It takes the flags, the environment and the file of coordsvc serve, so it shows what serve would run with. Secrets are not shown. It exits with 2 where serve would refuse to start.

Examples:

    coordsvc config --config coordsvc.yaml
    coordsvc config --kafka-brokers kafka-1.example:9092 -o yaml > coordsvc.yaml
    COORDSVC_KAFKA_BROKERS=kafka-1.example:9092 coordsvc config`
}

// Run prints the settings, also where some are wrong: they help to see why.
func (c *configCmd) Run(inv *invocation) error {
	loaded, mistakes := c.load(inv, requiredToServe...)
	printWarnings(inv, loaded)
	if err := printSettings(inv.out, c.Output, loaded.Entries()); err != nil {
		return err
	}
	if mistakes != nil {
		return mistakes
	}
	if err := named(server.Check(serverConfig(&loaded.Settings)), loaded); err != nil {
		return err
	}
	_, _, err := brokerAuth(&loaded.Settings, slog.New(slog.DiscardHandler))
	return named(err, loaded)
}

func printSettings(w io.Writer, format string, entries []config.Entry) error {
	switch format {
	case "json":
		return settingsJSON(w, entries)
	case "yaml":
		return settingsYAML(w, entries)
	default:
		return settingsTable(w, entries)
	}
}

func settingsTable(w io.Writer, entries []config.Entry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tSET BY")
	for _, e := range entries {
		value := displayText(e.Value)
		if value == "" {
			value = "(not set)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", e.Path, value, displayText(e.Origin.String()))
	}
	return table.Flush()
}

func settingsJSON(w io.Writer, entries []config.Entry) error {
	type row struct {
		Setting string `json:"setting"`
		Value   string `json:"value"`
		Source  string `json:"source"`
		SetBy   string `json:"setBy,omitempty"`
	}
	rows := make([]row, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, row{e.Path, e.Value, e.Origin.Source.String(), e.Origin.Name})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(rows)
}

// settingsYAML writes a settings file. What is not set, and what is secret, stands
// in it as a comment. Values are quoted as JSON strings, which YAML reads as they are.
func settingsYAML(w io.Writer, entries []config.Entry) error {
	var b strings.Builder
	var groups []string // that stand open
	for _, e := range entries {
		path := strings.Split(e.Path, ".")
		groups = config.OpenGroups(&b, groups, path[:len(path)-1])
		comment := ""
		if e.Value == "" || e.Value == config.Redacted {
			comment = "# "
		}
		value, err := json.Marshal(e.Value)
		if err != nil {
			return err
		}
		if e.Type() == "boolean" || e.Type() == "integer" || e.Type() == "number" || e.Type() == "duration" {
			value = []byte(e.Value)
		}
		fmt.Fprintf(&b, "%s%s%s: %s # %s\n", strings.Repeat("  ", len(groups)), comment, path[len(path)-1], value, displayText(e.Origin.String()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
