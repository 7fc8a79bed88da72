"""Trains and evaluates the models of siha_ros, on a machine with or without ROS. The node never imports it."""
