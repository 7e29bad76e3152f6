// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/shared/schedule"
)

// tsnkit is a collection of schedulers (Xue et al., RTAS 2024) whose tables are CSV files: streams (stream, src, dst, size, period, deadline,
// jitter), links (link, q_num, rate, t_proc, t_prop), and as results GCL, OFFSET, QUEUE and ROUTE. Nodes are numbers, times nanoseconds in
// multiples of 100, and a link is "(0, 1)".
const tsnkitSlotNs = 100

// tsnkitSpeeds are the rates: nanoseconds of a bit.
var tsnkitSpeeds = map[int64]string{1: "1Gbit", 10: "100Mbit", 100: "10Mbit", 1000: "1Mbit"}

var number = regexp.MustCompile(`[0-9]+`)

// table is a CSV file with its columns by name.
type table struct {
	path    string
	columns map[string]int
	rows    [][]string
}

func readTable(path string, columns ...string) (*table, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read a table of tsnkit: %w", err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, &Error{File: path, Message: fmt.Sprintf("is no table of tsnkit (%v); its first line has %s", err, strings.Join(columns, ","))}
	}
	t := &table{path: path, columns: map[string]int{}, rows: rows[1:]}
	for i, name := range rows[0] {
		t.columns[name] = i
	}
	for _, name := range columns {
		if _, exists := t.columns[name]; !exists {
			return nil, &Error{File: path, Line: 1, Message: fmt.Sprintf("has no column %s; it must have %s", name, strings.Join(columns, ","))}
		}
	}
	return t, nil
}

// numbers returns the numbers of a cell, such as both of "(0, 1)".
func (t *table) numbers(row int, column string, count int) ([]int64, *Error) {
	text := t.rows[row][t.columns[column]]
	var values []int64
	for _, digits := range number.FindAllString(text, -1) {
		value, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && value < math.MaxInt32*1000 {
			values = append(values, value)
		}
	}
	if len(values) < count || strings.Contains(text, "-") {
		return nil, &Error{File: t.path, Line: row + 2, Field: column, Message: fmt.Sprintf("is %q; must have numbers", text)}
	}
	return values, nil
}

// ReadTsnkit reads streams and links of tsnkit. Nodes with one link are stations.
func ReadTsnkit(streamsPath, linksPath string) (*Input, error) {
	zero := int64(0)
	in := &Input{Topology: &Topology{Forwarding: ExplicitPaths, MTU: 65535, OverheadBytes: &zero, GuardBandNs: &zero, StationGuardBandNs: &zero,
		GranularityNs: tsnkitSlotNs, SupportedListMax: 1 << 20, SupportedCycleMaxNs: 3600e9}}
	links, err := readTable(linksPath, "link", "rate", "t_proc", "t_prop")
	if err != nil {
		return nil, err
	}
	type end struct{ from, to int64 }
	ends, degree, delays := map[end]bool{}, map[int64]int{}, map[int64]int64{}
	for row := range links.rows {
		nodes, fault := links.numbers(row, "link", 2)
		if fault != nil {
			return nil, fault
		}
		ends[end{nodes[0], nodes[1]}] = true
		degree[nodes[0]]++
		delay, fault := links.numbers(row, "t_proc", 1)
		if fault != nil {
			return nil, fault
		}
		delays[nodes[1]] = max(delays[nodes[1]], delay[0])
	}
	name := func(node, peer int64) string {
		if degree[node] > 1 {
			return fmt.Sprintf("%d/%d", node, peer)
		}
		return strconv.FormatInt(node, 10)
	}
	for _, node := range sortedKeys(degree) {
		if degree[node] > 1 {
			in.Topology.Bridges = append(in.Topology.Bridges, Bridge{Name: strconv.FormatInt(node, 10), DelayNs: delays[node], MinDelayNs: delays[node]})
		}
	}
	for row := range links.rows {
		nodes, _ := links.numbers(row, "link", 2)
		rate, fault := links.numbers(row, "rate", 1)
		if fault != nil {
			return nil, fault
		}
		delay, fault := links.numbers(row, "t_prop", 1)
		switch {
		case fault != nil:
			return nil, fault
		case !ends[end{nodes[1], nodes[0]}] || tsnkitSpeeds[rate[0]] == "":
			return nil, &Error{File: linksPath, Line: row + 2, Field: "link", Message: "has no link back, or a rate other than 1, 10, 100 and 1000"}
		case nodes[0] < nodes[1]:
			in.Topology.Links = append(in.Topology.Links, Link{Ends: []string{name(nodes[0], nodes[1]), name(nodes[1], nodes[0])},
				LinkSpeed: tsnkitSpeeds[rate[0]], DelayNs: delay[0]})
		}
	}
	if err := in.readTsnkitStreams(streamsPath); err != nil {
		return nil, err
	}
	return in, nil
}

func (in *Input) readTsnkitStreams(path string) error {
	columns := []string{"src", "dst", "size", "period", "deadline"}
	t, err := readTable(path, append([]string{"stream"}, columns...)...)
	if err != nil {
		return err
	}
	for row, cells := range t.rows {
		values := map[string][]int64{}
		for _, column := range columns {
			var fault *Error
			if values[column], fault = t.numbers(row, column, 1); fault != nil {
				return fault
			}
		}
		s := Stream{Name: cells[t.columns["stream"]], Talker: strconv.FormatInt(values["src"][0], 10), MaxFrameSize: values["size"][0],
			MinFrameSize: values["size"][0], Interval: IntervalOf(values["period"][0]), MaxLatencyNs: values["deadline"][0]}
		if s.Interval == (Interval{}) {
			return &Error{File: path, Line: row + 2, Field: "period", Message: fmt.Sprintf("is %d ns; must be from 1 to 4294967295, or a multiple of 1000",
				values["period"][0])}
		}
		for _, node := range values["dst"] {
			s.Listeners = append(s.Listeners, strconv.FormatInt(node, 10))
		}
		in.Streams = append(in.Streams, s)
	}
	return nil
}

// WriteTsnkit writes the tables prefix-GCL.csv, -OFFSET.csv, -QUEUE.csv and -ROUTE.csv, the first from the gate control lists. Streams and
// stations must have numbers as names, as ReadTsnkit gives them.
func (p *Plan) WriteTsnkit(prefix string, in *Input) error {
	peers := map[string]string{}
	for _, link := range in.Topology.Links {
		peers[link.Ends[0]], peers[link.Ends[1]] = link.Ends[1], link.Ends[0]
	}
	link := func(port string) string {
		from, _, _ := strings.Cut(port, "/")
		to, _, _ := strings.Cut(peers[port], "/")
		return fmt.Sprintf("(%s, %s)", from, to)
	}
	offsets, queues, routes := [][]string{{"stream", "frame", "offset"}}, [][]string{{"stream", "frame", "link", "queue"}}, [][]string{{"stream", "link"}}
	for i := range p.Streams {
		a := &p.Streams[i]
		for k, frame := range a.Frames {
			offsets = append(offsets, []string{a.Name, strconv.Itoa(k), strconv.FormatInt(frame.TransmitOffsetNs, 10)})
			for _, h := range frame.Hops {
				queues = append(queues, []string{a.Name, strconv.Itoa(k), link(h.Port), strconv.Itoa(int(a.TrafficClass))})
				if k == 0 {
					routes = append(routes, []string{a.Name, link(h.Port)})
				}
			}
		}
	}
	for name, rows := range map[string][][]string{"GCL": p.tsnkitWindows(link), "OFFSET": offsets, "QUEUE": queues, "ROUTE": routes} {
		var text strings.Builder
		if err := csv.NewWriter(&text).WriteAll(rows); err != nil {
			return fmt.Errorf("encode a table of tsnkit: %w", err)
		}
		if err := os.WriteFile(prefix+"-"+name+".csv", []byte(text.String()), 0o644); err != nil {
			return fmt.Errorf("write a table of tsnkit: %w", err)
		}
	}
	return nil
}

// tsnkitWindows converts gate control lists. A window over the end of a cycle also has a row at its beginning.
func (p *Plan) tsnkitWindows(link func(port string) string) [][]string {
	rows := [][]string{{"link", "queue", "start", "end", "cycle"}}
	for i := range p.Ports {
		t := &p.Ports[i].Table
		cycleNs := t.AdminCycleTime.Nanoseconds()
		phase := modulo((int64(t.AdminBaseTime.Seconds)-int64(p.BaseTime.Seconds))*1e9+int64(t.AdminBaseTime.Nanoseconds)-int64(p.BaseTime.Nanoseconds), cycleNs)
		var windows []window
		for _, entry := range (schedule.Cycle{TimeNs: cycleNs, Entries: t.AdminControlList.Entries}).Executed() {
			endNs := phase + int64(entry.TimeIntervalValue)
			if entry.GateStatesValue&t.AdminGateStates == 0 { // a class of streams
				class := uint8(slices.Index([]uint8{1, 2, 4, 8, 16, 32, 64, 128}, entry.GateStatesValue))
				windows = append(windows, window{startNs: phase, endNs: endNs, class: class})
				if endNs > cycleNs {
					windows = append(windows, window{startNs: 0, endNs: endNs - cycleNs, class: class})
				}
			}
			phase = endNs % cycleNs
		}
		slices.SortFunc(windows, func(a, b window) int { return cmp.Compare(a.startNs, b.startNs) })
		for _, w := range windows {
			rows = append(rows, []string{link(p.Ports[i].Port), strconv.Itoa(int(w.class)), strconv.FormatInt(w.startNs, 10), strconv.FormatInt(w.endNs, 10),
				strconv.FormatInt(cycleNs, 10)})
		}
	}
	return rows
}
