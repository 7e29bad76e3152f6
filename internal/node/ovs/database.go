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
	// madeSettings lists the settings of Open vSwitch that this package made.
	madeSettings = "kubernetsn-settings"
	// addressFrom is the interface whose address br-phy has.
	addressFrom = "kubernetsn-address-from"
	// arpIgnored is the interface that answered ARP for all addresses of the node.
	arpIgnored = "kubernetsn-arp-ignore"
	// probe is there for a moment, to see whether ovs-vswitchd follows.
	probe = "kubernetsn-probe"
)

// row is an entry of a table.
type row map[string]any

// text is a column's string or number; "" when it is empty.
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

// pairs is a column that is a map.
func (r row) pairs(column string) map[string]string {
	found := map[string]string{}
	value, ok := r[column].([]any)
	if !ok || len(value) != 2 || value[0] != "map" {
		return found
	}
	entries, _ := value[1].([]any)
	for _, entry := range entries {
		if pair, ok := entry.([]any); ok && len(pair) == 2 {
			found[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
		}
	}
	return found
}

// references lists the rows that a column refers to.
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

// database is what the database says, by name.
type database struct {
	root              row
	bridges           map[string]row
	ports, interfaces map[string]row
	// bridgeOf is the bridge of a port.
	bridgeOf map[string]string
}

// parseTable reads what ovs-vsctl --format=json lists.
func parseTable(text []byte) ([]row, error) {
	var table struct {
		Headings []string `json:"headings"`
		Data     [][]any  `json:"data"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, fmt.Errorf("read what ovs-vsctl lists: %w", err)
	}
	rows := make([]row, 0, len(table.Data))
	for _, values := range table.Data {
		one := row{}
		for i, value := range values {
			if i < len(table.Headings) {
				one[table.Headings[i]] = value
			}
		}
		rows = append(rows, one)
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
	for _, one := range rows {
		named[one.text("name")] = one
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
	found := &database{root: tables["Open_vSwitch"][0], bridges: byName(tables["Bridge"]), ports: byName(tables["Port"]),
		interfaces: byName(tables["Interface"]), bridgeOf: map[string]string{}}
	names := map[string]string{}
	for name, port := range found.ports {
		for _, id := range port.references("_uuid") {
			names[id] = name
		}
	}
	for name, bridge := range found.bridges {
		for _, id := range bridge.references("ports") {
			found.bridgeOf[names[id]] = name
		}
	}
	return found, nil
}
