"""Discord: a bot, over discord.py. (`import discord` imports that library: imports are absolute here.)"""
