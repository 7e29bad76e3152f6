// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/cli/clusterreader"
)

// listLinks lists the cluster's links. A cluster without the kind, such as one without the operator, has none.
func listLinks(ctx context.Context, c *clusterreader.Cluster) ([]v1alpha1.TSNLink, error) {
	links, err := clusterreader.List[v1alpha1.TSNLink](ctx, c, clusterreader.TSNLinks, "", "", "")
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the cluster's TSNLinks: %w", err)
	}
	return links, nil
}

// printLinks prints links, those that are not up first.
func printLinks(out io.Writer, table *tabwriter.Writer, links []v1alpha1.TSNLink) error {
	if len(links) == 0 {
		return nil
	}
	steps := make([]chainStep, 0, len(links))
	up := 0
	for i := range links {
		steps = append(steps, stepOf(&links[i]))
		up += rankOf(steps[i].Up)
	}
	slices.SortFunc(steps, func(a, b chainStep) int {
		return cmp.Or(cmp.Compare(rankOf(a.Up), rankOf(b.Up)), strings.Compare(a.Link, b.Link))
	})
	fmt.Fprintf(out, "\nlinks: %d, %d of them up\n", len(links), up)
	fmt.Fprintln(table, "link\tclient\tendpoint\tVNI\tup")
	for i := range steps[:min(len(steps), maxRows)] {
		step := &steps[i]
		state := "yes"
		if !step.Up {
			state = "no: " + step.Reason
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", step.Link, endName(&step.Client), endName(&step.Endpoint), step.VNI, state)
	}
	printMore(table, "", len(steps))
	return table.Flush()
}
