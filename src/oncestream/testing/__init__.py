"""What tests of Oncestream and of its users' programs run against."""
