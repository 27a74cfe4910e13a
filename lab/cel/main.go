// Command cel-oracle evaluates device selectors with Kubernetes' own evaluator.
//
// It reads {"expressions": [...], "slices": [ResourceSlice, ...]} from the standard input and writes one
// verdict for each expression, in order: the compile error, or for each device, in the order of the slices,
// whether the expression matches it and which error its evaluation ended with.
//
// Expressions are compiled as kube-scheduler compiles those that are stored in the cluster: every library and
// feature is on, the cost is not estimated beforehand, and an evaluation that becomes too costly is an error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Expressions []string                    `json:"expressions"`
	Slices      []resourceapi.ResourceSlice `json:"slices"`
}

type verdict struct {
	CompileError string   `json:"compile_error,omitempty"`
	Devices      []result `json:"devices,omitempty"`
}

type result struct {
	Matches bool   `json:"matches"`
	Error   string `json:"error,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "cel-oracle: %v\n", err)
		os.Exit(2)
	}
}

func run() error {
	var asked question
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return fmt.Errorf("the standard input: %w", err)
	}
	devices := devicesOf(asked.Slices)
	cache := cel.NewCache(1, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	verdicts := make([]verdict, 0, len(asked.Expressions))
	for _, expression := range asked.Expressions {
		verdicts = append(verdicts, judge(cache.GetOrCompile(expression), devices))
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(verdicts)
}

func devicesOf(slices []resourceapi.ResourceSlice) []cel.Device {
	var devices []cel.Device
	for _, slice := range slices {
		for _, device := range slice.Spec.Devices {
			devices = append(devices, cel.Device{
				Driver:                   slice.Spec.Driver,
				AllowMultipleAllocations: device.AllowMultipleAllocations,
				Attributes:               device.Attributes,
				Capacity:                 device.Capacity,
			})
		}
	}
	return devices
}

func judge(selector cel.CompilationResult, devices []cel.Device) verdict {
	if selector.Error != nil {
		return verdict{CompileError: selector.Error.Detail}
	}
	results := make([]result, 0, len(devices))
	for _, device := range devices {
		matches, _, err := selector.DeviceMatches(context.Background(), device)
		outcome := result{Matches: matches && err == nil}
		if err != nil {
			outcome.Error = err.Error()
		}
		results = append(results, outcome)
	}
	return verdict{Devices: results}
}
