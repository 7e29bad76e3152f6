// SPDX-License-Identifier: Apache-2.0

package results

// Section is a part of a report that belongs to an experiment; the report draws and writes it without interpreting it.
type Section struct {
	// ID is a unique word in lower case.
	ID     string         `json:"id"`
	Title  string         `json:"title"`
	About  string         `json:"about"`
	Charts []Chart        `json:"charts"`
	Tables []SectionTable `json:"tables"`
}

// Chart has lines over a common axis, or bars if the points have names.
type Chart struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Caption string `json:"caption"`
	XAxis   string `json:"x_axis"`
	YAxis   string `json:"y_axis"`
	// LogX and LogY make an axis logarithmic, with values above 0.
	LogX bool `json:"log_x"`
	LogY bool `json:"log_y"`
	// Bars has a group of bars for each name in Labels, one for each line; the X of its points counts the names from 0.
	Bars   bool     `json:"bars"`
	Labels []string `json:"labels,omitempty"`
	// Steps draws lines as steps, for histograms.
	Steps bool   `json:"steps"`
	Lines []Line `json:"lines"`
}

// Line is a line of a chart.
type Line struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Point is a value. Its range is drawn if Low is below High.
type Point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// SectionTable is a table of formatted numbers. The first column names the rows.
type SectionTable struct {
	ID    string     `json:"id"`
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

// Series are the samples of one run: the messages of all its alternations in the order of their transmit times.
type Series struct {
	Key
	LatencyNs []int64
	// MeasuredNs is for each latency how long the run had been measured when the message was due, without the time of
	// others' turns.
	MeasuredNs []int64
	// JitterNs is signed.
	JitterNs []int64
	// LaunchNs and DepartureNs are empty without observations of the wire or without ktsnd.
	LaunchNs    []int64
	DepartureNs []int64
}
