"""Discord: a bot, by discord.py. (`import discord` means that library: imports are absolute here.)"""
