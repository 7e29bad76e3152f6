// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHelmTest runs the chart's own test: helm prints what arrived, and leaves nothing in the cluster.
func TestHelmTest(t *testing.T) {
	ctx := needTwoNodes(t)
	uninstall := withOperator(ctx, t)
	output, err := helm(ctx, t, "test", release, "--timeout", "4m")
	if err != nil {
		t.Fatalf("helm test: %v\n%s", err, output)
	}
	for _, want := range []string{"received 1000, foreign 0, invalid 0, duplicates 0", "latency "} {
		if !strings.Contains(output, want) {
			t.Errorf("helm test does not print %q:\n%s", want, output)
		}
	}
	await(ctx, t, testIsRemoved)
	uninstall(t)
}

// testIsRemoved returns an error while objects of `helm test` exist.
func testIsRemoved(ctx context.Context) error {
	const name = "kubernetsn-test"
	pods, err := client.CoreV1().Pods(chartSystem).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component in (test, test-talker)"})
	if err != nil {
		return err
	}
	if len(pods.Items) > 0 {
		return fmt.Errorf("%d pods of the test exist", len(pods.Items))
	}
	if _, err := client.AppsV1().Deployments(chartSystem).Get(ctx, name+"-talker", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("deployment %s-talker exists: %v", name, err)
	}
	return nil
}
