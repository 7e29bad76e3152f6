// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed" // the page's form
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/bench/results"
)

//go:embed page.html.tmpl
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// cdfPayload is the payload whose distribution function is drawn, if it was measured.
const cdfPayload = 256

// page is the template's data.
type page struct {
	Style template.CSS
	Title string
	Parts []part
	// Outside is the limit of drawn points beyond a whisker, Points that of a curve.
	Outside, Points int
	// Messages: some of the page is about messages, not all of it about an experiment.
	Messages bool
	// Command wrote the page.
	Command string
}

// part is one measurement.
type part struct {
	// Name is empty if there is only one, and Prefix begins the names of the part's elements. Headline is an
	// experiment's; empty for messages.
	Headline     string
	Name, Prefix string
	Date         string
	About        string
	Verdict      string
	Bad          bool
	Tiles        []tile
	Paths        []pathKey
	Sections     []section
	Plain        []figure
	Causes       *table
	Apart        []workload
	Idle         string
	Targets      targetTable
	Ratios       results.SectionTable
	Assertions   []results.Assertion
	Usage        results.SectionTable
	NotMeasured  []results.Gap
	// Nodes describes the nodes, Warner the source of warnings.
	Nodes, Warner string
	Machine       []entry
	Warnings      []string
	// Emulated describes virtual machines.
	Emulated string
	Problems []string
}

// figures are all drawings of a part.
func (p *part) figures() []figure {
	all := slices.Clone(p.Plain)
	for _, apart := range p.Apart {
		all = append(all, apart.Figures...)
	}
	for _, section := range p.Sections {
		all = append(all, section.Figures...)
	}
	return all
}

// tile is one of the main numbers.
type tile struct {
	Value, Unit, Title, Note string
	Bad                      bool
}

type pathKey struct {
	Name   string
	Route  string
	Swatch template.HTML
}

// figure is a drawing, its explanation, and its numbers.
type figure struct {
	ID       string
	Title    string
	Caption  string
	Keys     []pathKey
	Drawings []drawing
	Tables   []table
	// Data are the points of the drawings.
	Data []data
}

// drawing is one picture and the label of its vertical axis.
type drawing struct {
	Axis    string
	picture *picture
}

// Picture returns the drawing as SVG.
func (d drawing) Picture() (template.HTML, error) { return d.picture.inline() }

// workload is a block of runs separate from the plain ones.
type workload struct {
	ID      string
	Name    string
	About   string
	Figures []figure
	Causes  table
	// Gates is nil without a schedule.
	Gates *gateTable
}

type entry struct{ Name, Value string }

func newPage(measurements []*Measurement) (*page, error) {
	p := &page{
		Style:   template.CSS(pageStyle), // a constant of this program
		Outside: 2 * outsidePerSide,
		Points:  curvePoints,
		Command: "ktsn demo",
		Title:   "KuberneTSN",
	}
	for i, measurement := range measurements {
		if measurement.Summary == nil {
			return nil, errors.New("a report needs a summary")
		}
		prefix := ""
		if i > 0 {
			prefix = fmt.Sprintf("m%d-", i+1)
		}
		part, err := newPart(measurement, prefix)
		if err != nil {
			return nil, err
		}
		if measurement.Summary.Profile != nil {
			p.Command = "ktsn bench"
		}
		p.Messages = p.Messages || part.Headline == ""
		p.Parts = append(p.Parts, *part)
	}
	if len(p.Parts) == 0 {
		return nil, errors.New("a report needs a measurement")
	}
	p.Title = strings.TrimPrefix(p.Command, "ktsn ") + ", " + p.Parts[0].Date
	return p, nil
}

func newPart(measurement *Measurement, prefix string) (*part, error) {
	summary := measurement.Summary
	p := &part{
		Name:        measurement.Name,
		Prefix:      prefix,
		Date:        summary.Host.Date.Format("2 January 2006, 15:04 MST"),
		Targets:     newTargetTable(summary.Figures),
		Ratios:      ratioTable(summary.Ratios),
		Assertions:  summary.Assertions,
		Usage:       usageTable(summary.Usage),
		NotMeasured: summary.NotMeasured,
		Nodes:       nodesOf(summary),
		Warner:      "ktsnd says",
		Machine:     machine(summary),
		Warnings:    summary.Warnings,
		Emulated:    summary.Emulated,
		Problems:    summary.Problems,
		Idle:        idle(summary.Idle),
	}
	p.Ratios.ID, p.Usage.ID = prefix+p.Ratios.ID, prefix+p.Usage.ID
	if summary.Profile != nil {
		p.About = summary.Profile.About
		if summary.Profile.Experiment != "" {
			p.Headline = "profile " + summary.Profile.Name
		}
	}
	if inCluster(summary) {
		p.Warner = "Warning"
	}
	p.Paths = keysOf(summary.Runs)
	var plain []sampled
	conditions := conditionsOf(summary)
	for _, under := range conditions {
		runs := reduce(measurement, under)
		if under.workload == results.WorkloadPlain && plain == nil {
			plain = runs
			var err error
			if p.Plain, err = plainFigures(prefix, runs, summary.Profile); err != nil {
				return nil, err
			}
			causes := causesTable(prefix+"causes", runs)
			p.Causes = &causes
			continue
		}
		apart, err := newWorkload(prefix, nameOf(under, conditions), under, runs, summary)
		if err != nil {
			return nil, err
		}
		p.Apart = append(p.Apart, apart)
	}
	var err error
	if p.Sections, err = newSections(prefix, summary.Sections); err != nil {
		return nil, err
	}
	p.Verdict, p.Bad = verdict(summary)
	p.Tiles = tiles(summary, plain, p.Targets)
	return p, nil
}

// nameOf is the workload, with the cycle if there are several.
func nameOf(under condition, all []condition) string {
	for _, other := range all {
		if other.cycleNs != under.cycleNs {
			return fmt.Sprintf("%s, %s µs", under.workload, micros(under.cycleNs))
		}
	}
	return under.workload
}

func latencyBox(s *sampled) *box { return s.latency }
func jitterBox(s *sampled) *box  { return s.jitter }

func plainFigures(prefix string, runs []sampled, profile *results.ProfileSummary) ([]figure, error) {
	figures, err := boxFigures(prefix, runs)
	if err != nil {
		return nil, err
	}
	more, err := distributionFigures(prefix, runs, profile)
	return append(figures, more...), err
}

// distributionFigures are those of one payload.
func distributionFigures(prefix string, runs []sampled, profile *results.ProfileSummary) ([]figure, error) {
	cdf, err := cdfFigure(prefix, runs)
	if err != nil {
		return nil, err
	}
	histograms, err := histogramFigure(prefix, runs)
	if err != nil {
		return nil, err
	}
	means, err := meanFigure(prefix, runs, profile)
	return slices.Concat(cdf, histograms, means), err
}

const (
	latencyAxis  = "Latency, µs"
	latencyLabel = "Latency by payload and path, as box plots"
	jitterAxis   = "Jitter, µs"
	jitterLabel  = "Jitter by payload and path, as box plots"
)

const latencyCaption = "After figure 3a of the paper. Arrival at the listener − requested transmit time. The axis is logarithmic, so that the " +
	"tails do not flatten the boxes; equal distances are equal ratios. Below each box, where there is room: its median."

const jitterCaption = "After figure 3b of the paper. t(i) − (t(i−1) + cycle) of arrivals with consecutive numbers; 0 is a message exactly one " +
	"cycle after the one before. The axis is linear within ±1 µs and logarithmic beyond. After a message that " +
	"comes late by a time, the next one shows that time below zero: each delay appears twice."

// boxFigures are the box plots of latency and of jitter, without unmeasured ones. All payloads need the page's width.
func boxFigures(prefix string, runs []sampled) ([]figure, error) {
	var figures []figure
	for _, plotted := range []struct {
		id, title, caption, axis, label string
		boxOf                           func(*sampled) *box
		table                           func(string, []sampled) table
	}{{"latency", "Latency", latencyCaption, latencyAxis, latencyLabel, latencyBox, latencyTable},
		{"jitter", "Jitter", jitterCaption, jitterAxis, jitterLabel, jitterBox, jitterTable}} {
		drawn, measured, err := drawBoxes(runs, plotted.boxOf, wideWidth, wideHeight, plotted.label)
		if err != nil {
			return nil, err
		}
		if measured {
			figures = append(figures, figure{ID: prefix + plotted.id + "-figure", Title: plotted.title, Caption: plotted.caption,
				Keys: pathKeys(pathsOf(runs)), Drawings: []drawing{{plotted.axis, drawn}}, Tables: []table{plotted.table(prefix+plotted.id, runs)}})
		}
	}
	return figures, nil
}

// compactFigure has both side by side, for separate runs; none if nothing was measured.
func compactFigure(name string, runs []sampled) ([]figure, error) {
	latency, drawn, err := drawBoxes(runs, latencyBox, halfWidth, halfHeight, name+": "+latencyLabel)
	if err != nil || !drawn {
		return nil, err
	}
	result := figure{ID: name + "-figure", Title: "Latency and jitter", Caption: "Boxes, whiskers and axes as above.",
		Keys: pathKeys(pathsOf(runs)), Drawings: []drawing{{latencyAxis, latency}},
		Tables: []table{latencyTable(name+"-latency", runs)}}
	jitter, drawn, err := drawBoxes(runs, jitterBox, halfWidth, halfHeight, name+": "+jitterLabel)
	if err != nil {
		return nil, err
	}
	if drawn {
		result.Drawings = append(result.Drawings, drawing{jitterAxis, jitter})
		result.Tables = append(result.Tables, jitterTable(name+"-jitter", runs))
	}
	return []figure{result}, nil
}

// cdfFigure is the distribution function of latency at one payload; none if nothing was measured.
func cdfFigure(prefix string, all []sampled) ([]figure, error) {
	runs, payload := atPayload(all)
	if len(runs) == 0 {
		return nil, nil
	}
	var boxes []*box
	var curves []*curve
	for _, current := range runs {
		boxes, curves = append(boxes, current.latency), append(curves, newCurve(current.latencyNs))
	}
	limit := reach(boxes)
	body, err := drawCDF(runs, curves, limit, fmt.Sprintf("Distribution function of latency at %d B", payload))
	if err != nil {
		return nil, err
	}
	tail, err := drawTail(runs, curves, fmt.Sprintf("Tail of latency at %d B", payload))
	if err != nil {
		return nil, err
	}
	return []figure{{
		ID:    prefix + "cdf-figure",
		Title: fmt.Sprintf("Distribution of latency at %d B", payload),
		Caption: fmt.Sprintf("Left, after figure 4 of the paper: the share of messages that took at most so long; the steeper, the more "+
			"predictable. The axis ends at %s µs, about twice the largest p75 of the paths. Right: the same messages to "+
			"their last one, as the share that took at least so long, both axes logarithmic. Each curve has "+
			"at most %s points, more of them in the tail; first, last and the percentiles of the table are among them.",
			micros(limit), thousands(curvePoints)),
		Keys:     pathKeys(pathsOf(runs)),
		Drawings: []drawing{{"Share that took at most so long", body}, {"Share that took at least so long", tail}},
		Tables:   []table{cdfTable(prefix+"cdf", runs, limit)},
		Data:     []data{cdfData(prefix+"cdf", runs, curves)},
	}}, nil
}

func cdfData(id string, runs []sampled, curves []*curve) data {
	d := data{Name: id, Columns: []string{"path", "latency_ns", "messages_at_most", "messages"}}
	for i, curve := range curves {
		for _, point := range curve.points {
			d.add(runs[i].run.Path, point.ns, int64(point.rank), int64(curve.count))
		}
	}
	return d
}

// payloadOfCDF is the payload of the paper's figure, or the smallest with samples.
func payloadOfCDF(runs []sampled) (payload int, ok bool) {
	for i := len(runs) - 1; i >= 0; i-- {
		if runs[i].latency == nil {
			continue
		}
		if payload, ok = runs[i].run.PayloadBytes, true; payload == cdfPayload {
			break
		}
	}
	return payload, ok
}

// keysOf are the paths of all runs.
func keysOf(runs []*results.Run) []pathKey {
	var paths []string
	for _, run := range runs {
		if !slices.Contains(paths, run.Path) {
			paths = append(paths, run.Path)
		}
	}
	return pathKeys(paths)
}

func pathKeys(paths []string) []pathKey {
	keys := make([]pathKey, len(paths))
	for i, path := range paths {
		look := lookOf(path)
		keys[i] = pathKey{path, look.route, look.swatch()}
	}
	return keys
}

// aboutWorkloads describes the runs that are not plain.
var aboutWorkloads = map[string]string{
	results.WorkloadUnsampled: "The same messages without a tap on the link and without a look at programs and machine, in turns with " +
		"those above: what the bench itself does to what it measures.",
	results.WorkloadTalkers: "Several talkers, each with its own transmit times, which divide the cycle evenly. All their messages are " +
		"measured, and one listener receives them.",
	results.WorkloadCompeting: "Two other flows between the same pods, by the kernel’s path whichever path is measured: each a message of " +
		"1,400 B a millisecond.",
	results.WorkloadSaturated: "A sender between the same pods that sends messages of 1,400 B as fast as it can by the kernel’s path, " +
		"whichever path is measured. A veth has no speed: what it saturates is the way that the kernel’s packets share, and the " +
		"processor, which it leaves to the others as far as they want it.",
	results.WorkloadKeepAwake: "ktsnd keeps its processor from sleeping in these shorter runs. The talker runs on the same " +
		"processor, so all paths gain from it; it costs a whole processor’s power.",
	results.WorkloadPMDSleep: "Open vSwitch’s polling may pause for 50 µs when there is nothing (pmd-maxsleep): what that saves of a " +
		"processor, and what it costs.",
	results.WorkloadGates: "A schedule: in each cycle the gate is open for class 7, then for class 6, then for classes 0 to 5. " +
		"The messages are of class 7, with transmit times in the middle of its window. Another talker has as many of " +
		"class 6. Nothing saturates anything.",
	results.WorkloadGatesSaturated: "The same schedule and the same two talkers, and a third that sends large messages " +
		"of class 1 through ktsnd as fast as it can, so that the window of its class is always full.",
	results.WorkloadKernelSaturated: "The same schedule and the same two talkers, while an ordinary sender floods the " +
		"kernel’s path (bridge, VXLAN) of the same nodes with large messages, past ktsnd and its gates.",
	results.WorkloadGatesIperf3: "The same schedule and the same two talkers, while iperf3 sends UDP by the kernel’s path (bridge, VXLAN) of the " +
		"same nodes as fast as it can, past ktsnd and its gates.",
}

// aboutGates describes the rest of the cycle after a profile's window.
var aboutGates = map[string]string{
	results.WorkloadGates: "Nothing else is sent.",
	results.WorkloadGatesSaturated: "A talker sends large messages of class 1 through ktsnd as fast as it can, so that the rest of each " +
		"cycle is always full.",
	results.WorkloadKernelSaturated: "An ordinary sender floods the kernel’s path (bridge, VXLAN) of the same nodes with large messages, " +
		"past ktsnd and its gates.",
	results.WorkloadGatesIperf3: "iperf3 sends UDP by the kernel’s path (bridge, VXLAN) of the same nodes as fast as it can, past ktsnd and its gates.",
}

// aboutWorkload describes a run that is not plain.
func aboutWorkload(workload string, summary *results.Summary) string {
	if inCluster(summary) && workload == results.WorkloadSaturated {
		return saturatedInACluster
	}
	more, gates := aboutGates[workload]
	if summary.Profile == nil || summary.Profile.Window == nil || !gates {
		return aboutWorkloads[workload]
	}
	window := summary.Profile.Window
	tag := ""
	if summary.Profile.VLAN != 0 {
		tag = fmt.Sprintf(" ktsnd’s frames have the tag of VLAN %d and the priority of their class.", summary.Profile.VLAN)
	}
	if summary.Emulated != "" && window.GuestEarlyNs > 0 {
		tag += fmt.Sprintf(" Where the host of a virtual machine holds them they are due %s µs earlier.", micros(window.GuestEarlyNs))
	}
	return fmt.Sprintf("A schedule: from %s to %s µs of each cycle the gate is open for class 6 alone, of which the messages are, and they are due "+
		"%s µs behind its opening; the rest of the cycle is that of all other classes.%s %s", micros(window.OpenNs), micros(window.CloseNs),
		micros(window.OffsetNs), tag, more)
}

func newWorkload(prefix, name string, under condition, runs []sampled, summary *results.Summary) (workload, error) {
	id := prefix + strings.NewReplacer(", ", "-", " µs", "us", ",", "").Replace(name)
	figures, err := compactFigure(id, runs)
	if err != nil {
		return workload{}, err
	}
	more, err := distributionFigures(id+"-", runs, summary.Profile)
	if err != nil {
		return workload{}, err
	}
	return workload{id, name, aboutWorkload(under.workload, summary), append(figures, more...), causesTable(id+"-causes", runs),
		newGateTable(id+"-gates", runs)}, nil
}

func idle(idle *results.Idle) string {
	if idle == nil {
		return ""
	}
	return fmt.Sprintf("With nothing to send, ktsnd used %.4f cores over %.0f s.", idle.CPUCores["ktsnd"],
		float64(idle.DurationNs)/1e9)
}

func verdict(summary *results.Summary) (text string, bad bool) {
	if count := len(summary.Problems); count > 0 {
		return plural(count, "problem"), true
	}
	return "valid measurement", false
}
