// SPDX-License-Identifier: Apache-2.0

package ovs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Marks in the database.
const (
	// madeBy marks bridges and ports of this package.
	madeBy = "kubernetsn"
	// madeSettings lists the settings of Open vSwitch that this package wrote.
	madeSettings = "kubernetsn-settings"
	// addressFrom names the interface from which br-phy got its address.
	addressFrom = "kubernetsn-address-from"
	// arpIgnored names the interface whose arp_ignore keepQuiet changed.
	arpIgnored = "kubernetsn-arp-ignore"
	// probe exists for a moment while checkAlive tests whether ovs-vswitchd follows the database.
	probe = "kubernetsn-probe"
)

// row is an entry of a table.
type row map[string]any

// text returns a column's string or number, "" if it is empty.
func (r row) text(column string) string {
	switch value := r[column].(type) {
	case []any: // an empty set
		return ""
	case nil:
		return ""
	default:
		return strings.TrimSpace(fmt.Sprint(value))
	}
}

// pairs returns a column that is a map.
func (r row) pairs(column string) map[string]string {
	entriesByKey := map[string]string{}
	value, ok := r[column].([]any)
	if !ok || len(value) != 2 || value[0] != "map" {
		return entriesByKey
	}
	entries, _ := value[1].([]any)
	for _, entry := range entries {
		if pair, ok := entry.([]any); ok && len(pair) == 2 {
			entriesByKey[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
		}
	}
	return entriesByKey
}

// references returns the UUIDs of the rows that a column refers to.
func (r row) references(column string) []string {
	value, ok := r[column].([]any)
	if !ok || len(value) != 2 {
		return nil
	}
	if value[0] == "uuid" {
		return []string{fmt.Sprint(value[1])}
	}
	entries, _ := value[1].([]any)
	var all []string
	for _, entry := range entries {
		if anies, ok := entry.([]any); ok && len(anies) == 2 && anies[0] == "uuid" {
			all = append(all, fmt.Sprint(anies[1]))
		}
	}
	return all
}

func (r row) ours() bool { return r.pairs("external_ids")[madeBy] != "" }

// database is a copy of the database, with rows by name.
type database struct {
	root              row
	bridges           map[string]row
	ports, interfaces map[string]row
	// bridgeOf has the bridge of each port.
	bridgeOf map[string]string
}

// parseTable parses the output of ovs-vsctl --format=json list.
func parseTable(text []byte) ([]row, error) {
	var table struct {
		Headings []string `json:"headings"`
		Data     [][]any  `json:"data"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, fmt.Errorf("parse the output of ovs-vsctl: %w", err)
	}
	rows := make([]row, 0, len(table.Data))
	for _, values := range table.Data {
		parsed := row{}
		for i, value := range values {
			if i < len(table.Headings) {
				parsed[table.Headings[i]] = value
			}
		}
		rows = append(rows, parsed)
	}
	return rows, nil
}

func (s *Switch) list(ctx context.Context, table string) ([]row, error) {
	text, err := s.vsctl(ctx, toolTimeout, "--no-wait", "--format=json", "list", table)
	if err != nil {
		return nil, err
	}
	return parseTable(text)
}

func byName(rows []row) map[string]row {
	named := map[string]row{}
	for _, entry := range rows {
		named[entry.text("name")] = entry
	}
	return named
}

// read reads the database.
func (s *Switch) read(ctx context.Context) (*database, error) {
	tables := map[string][]row{}
	for _, table := range []string{"Open_vSwitch", "Bridge", "Port", "Interface"} {
		rows, err := s.list(ctx, table)
		if err != nil {
			return nil, err
		}
		tables[table] = rows
	}
	if len(tables["Open_vSwitch"]) == 0 {
		return nil, fmt.Errorf("the database at %s is empty; initialise it with `ovs-vsctl init`", s.Database)
	}
	have := &database{root: tables["Open_vSwitch"][0], bridges: byName(tables["Bridge"]), ports: byName(tables["Port"]),
		interfaces: byName(tables["Interface"]), bridgeOf: map[string]string{}}
	names := map[string]string{}
	for name, port := range have.ports {
		for _, id := range port.references("_uuid") {
			names[id] = name
		}
	}
	for name, bridge := range have.bridges {
		for _, id := range bridge.references("ports") {
			have.bridgeOf[names[id]] = name
		}
	}
	return have, nil
}
