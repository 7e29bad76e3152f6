// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// members is the path of a hub's members. Karmada's own API server serves it.
const members = "/apis/cluster.karmada.io/v1alpha1/clusters"

// answerPatience bounds a request to a hub. A server that is just starting may leave one unanswered.
const answerPatience = 5 * time.Second

// HubServes returns a question for Wait: whether Karmada's own API server answers, so that clusters can join.
func HubServes(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		_, err := client.Discovery().RESTClient().Get().AbsPath(members).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("Karmada's own API server does not answer: %w", err) //nolint:staticcheck // a name
		}
		return nil
	}
}

// harmless is a policy that is only ever applied as a dry run.
const harmless = `{"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "ktsn-cluster"},
	"spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "ktsn-cluster"}]}}`

// WebhookServes returns a question for Wait: whether Karmada's webhook answers.
func WebhookServes(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		_, err := client.Discovery().RESTClient().Post().AbsPath("/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies").
			Param("dryRun", "All").Body([]byte(harmless)).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("Karmada's webhook does not answer: %w", err) //nolint:staticcheck // a name
		}
		return nil
	}
}

// MemberReady returns a question for Wait: whether the hub reports a member ready.
func MemberReady(client kubernetes.Interface, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, answerPatience)
		defer cancel()
		text, err := client.Discovery().RESTClient().Get().AbsPath(members, name).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("get member %s: %w", name, err)
		}
		var member struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := json.Unmarshal(text, &member); err != nil {
			return fmt.Errorf("get member %s: %w", name, err)
		}
		condition := meta.FindStatusCondition(member.Status.Conditions, "Ready")
		if condition == nil || condition.Status != metav1.ConditionTrue {
			return fmt.Errorf("member %s is not ready: %+v", name, condition)
		}
		return nil
	}
}

// KarmadaGone returns a question for Wait, about a former member: whether the objects that karmadactl deletes are gone.
func KarmadaGone(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("look for objects of Karmada: %w", err)
		}
		for _, namespace := range namespaces.Items {
			if strings.HasPrefix(namespace.Name, "karmada-") && namespace.DeletionTimestamp != nil {
				return fmt.Errorf("namespace %s is still being deleted", namespace.Name)
			}
		}
		return nil
	}
}
